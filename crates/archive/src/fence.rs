//! Who may write, and whose objects count.
mod reign;

pub use reign::Reigns;
