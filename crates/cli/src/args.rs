//! The arguments that several commands have, and where else their values may come from.
//!
//! | Module | What it is |
//! |---|---|
//! | [`archive`], [`target`], [`home`], [`destinations`], [`store_flags`] | how places are reached: SRC, DEST, ARCHIVE and others; which flag is of which |
//! | [`etcd`], [`member`], [`fellow`], [`care`], [`server`] | the cluster, the member beside, other agents, care, HTTP |
//! | [`settings_file`], [`etcdbrctl_flags`] | a file and the environment; the flags of another program |

pub mod archive;
pub mod care;
pub mod destinations;
pub mod etcd;
pub mod etcdbrctl_flags;
pub mod fellow;
pub mod home;
pub mod member;
pub mod server;
pub mod settings_file;
pub mod store_flags;
pub mod target;
