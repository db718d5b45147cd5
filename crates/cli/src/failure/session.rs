//! Why following or backing up does not go on, and what to do about it.

use agent::follow::base::BaseError;
use agent::follow::live::Trouble;
use agent::follow::resume::ResumeError;
use agent::follow::session::SessionError;
use etcd_data::Kind;

use crate::args::home::home_failure;
use crate::failure::Failure;

/// Why it does not go on, where the archive is at `place`.
pub fn session_failure(place: &str, error: &SessionError) -> Failure {
    let of_archive = |error: &archive::Error| home_failure(place, error);
    match error {
        SessionError::Archive(error)
        | SessionError::Resume(ResumeError::Archive(error))
        | SessionError::Base(BaseError::Archive(error)) => of_archive(error),
        SessionError::Live(trouble)
        | SessionError::Resume(ResumeError::Live(trouble))
        | SessionError::Base(BaseError::Live(trouble)) => trouble_failure(trouble),
        SessionError::Resume(stranger @ ResumeError::Stranger { .. }) => {
            Failure::new(Kind::Conflict, stranger.to_string()).hint(
                "if this cluster takes the place of that one, --replaces says so; otherwise --cluster gives it a name of its own",
            )
        }
        SessionError::Base(
            base @ (BaseError::Unsound(_) | BaseError::NoRoom { .. } | BaseError::Scratch(_)),
        ) => {
            let failure = Failure::of(base.kind(), base);
            match base.remedy() {
                Some(remedy) => failure.hint(remedy),
                None => failure,
            }
        }
        SessionError::Nobody(nobody) => Failure::new(Kind::Unavailable, nobody.to_string())
            .hint("`etcdctl endpoint status --cluster` shows how the members are"),
        SessionError::Broken(_) | SessionError::Undelivered(_) => Failure::new(Kind::Unavailable, error.to_string()),
    }
}

fn trouble_failure(trouble: &Trouble) -> Failure {
    match trouble {
        Trouble::Away { .. } => Failure::new(Kind::Unavailable, trouble.to_string())
            .hint("--endpoints names where etcd serves its clients; --cacert, --cert and --key how it is reached"),
        Trouble::Refused { .. } => Failure::new(Kind::Denied, trouble.to_string())
            .hint("where etcd's authentication is on, the user needs the role root"),
        Trouble::Compacted { .. } => Failure::new(Kind::Unavailable, trouble.to_string()),
    }
}
