//! How a live etcd is reached. No secret is ever the value of a flag.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::doctor::remedy::remedy;
use etcd_data::Kind;
use etcd_rpc::{Access, Endpoint, Login, RpcError, Tls, Verify};

use crate::args::archive::read_secret;
use crate::duration::period;
use crate::failure::Failure;

/// How a live etcd is reached.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd")]
pub struct EtcdArgs {
    /// Where etcd serves its clients, as in https://10.0.0.1:2379; several with commas between. Members that are not named
    /// are found through those that are
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "ETCDCTL_ENDPOINTS",
        default_value = "http://127.0.0.1:2379"
    )]
    pub endpoints: Vec<Endpoint>,
    #[command(flatten)]
    access: AccessArgs,
}

/// Certificates, and who we are.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd")]
pub struct AccessArgs {
    /// The authorities whose certificates are believed, as PEM
    #[arg(long, value_name = "FILE", alias = "etcd-cacert", env = "ETCDCTL_CACERT")]
    cacert: Option<PathBuf>,
    /// The certificate that is shown to etcd
    #[arg(long, value_name = "FILE", requires = "key", env = "ETCDCTL_CERT")]
    cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert", env = "ETCDCTL_KEY")]
    key: Option<PathBuf>,
    /// For whom the certificates of members have to be, if not for their hosts
    #[arg(long, value_name = "NAME")]
    etcd_server_name: Option<String>,
    /// Believe whoever answers to be etcd
    #[arg(long)]
    insecure_skip_etcd_verify: bool,
    /// The user, where etcd asks for one
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_username: Option<String>,
    /// A file with the user's password
    #[arg(long, value_name = "FILE", requires = "etcd_username")]
    etcd_password_file: Option<PathBuf>,
    /// How long an answer may take
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = period("10s"))]
    etcd_timeout: Duration,
}

impl EtcdArgs {
    /// How members are reached.
    pub fn access(&self) -> Result<Access, Failure> {
        self.access.access(self.endpoints.iter().any(Endpoint::is_https))
    }
}

impl AccessArgs {
    /// Whether anything of it was said here, and not by the environment, which tells other programs too.
    pub fn is_given(&self) -> bool {
        let flag = |given: &Option<PathBuf>, variable| given.is_some() && std::env::var_os(variable).is_none();
        flag(&self.cacert, "ETCDCTL_CACERT")
            || flag(&self.cert, "ETCDCTL_CERT")
            || self.etcd_server_name.is_some()
            || self.insecure_skip_etcd_verify
            || self.etcd_username.is_some()
    }

    /// How members are reached, with TLS if `uses_tls`.
    pub fn access(&self, uses_tls: bool) -> Result<Access, Failure> {
        if !uses_tls && (self.cacert.is_some() || self.cert.is_some()) {
            let message = "certificates are given for etcd, and no endpoint is https";
            return Err(Failure::new(Kind::Usage, message).hint("--endpoints https://… uses them"));
        }
        if !uses_tls && self.etcd_server_name.is_some() {
            let message = "--etcd-server-name is about certificates, and no endpoint is https";
            return Err(Failure::new(Kind::Usage, message).hint("--endpoints https://… has certificates"));
        }
        let login = match (&self.etcd_username, &self.etcd_password_file) {
            (Some(user), Some(file)) => Some(login(user, file)?),
            _ => None,
        };
        let tls = uses_tls.then(|| Tls {
            ca: self.cacert.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            server_name: self.etcd_server_name.clone(),
            verify: if self.insecure_skip_etcd_verify { Verify::Nothing } else { Verify::Everything },
        });
        let mut access = Access { tls, login, ..Access::default() };
        access.deadlines.answer = self.etcd_timeout;
        Ok(access)
    }
}

/// The user `user` with the password that is in `file` whenever somebody logs in. That it can be read is found out now.
fn login(user: &str, file: &Path) -> Result<Login, Failure> {
    read_secret(file)?;
    let file = file.to_owned();
    Ok(Login::reading(user, move || read_secret(&file).map_err(|failure| failure.in_one_line())))
}

/// Why etcd did not answer, and what to do about it.
pub fn rpc_failure(error: &RpcError) -> Failure {
    use etcd_rpc::Fault;

    let kind = match &error.fault {
        Fault::WrongPassword | Fault::LoginNeeded | Fault::Denied => Kind::Denied,
        Fault::Unsupported => Kind::Unsupported,
        Fault::NotEtcd { .. } => Kind::Usage,
        _ => Kind::Unavailable,
    };
    Failure::because(kind, format!("{}: {}", error.endpoint, error.action), &error.fault).hint(remedy(&error.fault))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use etcd_rpc::{Fault, Member};
    use testkit::FakeEtcd;

    use super::*;

    #[tokio::test]
    async fn a_password_that_was_changed_in_its_file_is_used_by_who_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let keep = |password: &str, mode| {
            fs::write(&file, format!("{password}\n")).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        };
        assert!(login("root", &file).is_err(), "there is no file yet");

        keep("first", 0o600);
        let access = Access { login: Some(login("root", &file).unwrap()), ..Access::default() };
        let etcd = FakeEtcd::start(1);
        etcd.ask_for_users();
        etcd.change_password("first");
        let root = Member::new(etcd.url(0).parse().unwrap(), &access);
        root.get("a").await.unwrap();

        etcd.change_password("second");
        keep("second", 0o600);
        root.get("a").await.unwrap();

        // What is not taken at the start is not taken later either.
        etcd.change_password("third");
        keep("third", 0o644);
        let Fault::NoPassword { why } = root.get("a").await.unwrap_err().fault else { panic!("everybody can read it") };
        assert!(why.contains(file.to_str().unwrap()), "{why}");
    }
}
