//! What went wrong with an archive, as a person who asked over HTTP is told.

use api::problem::{Kind, Problem};
use archive::Error;
use archive::agree::in_words;
use archive::catalogue::PickError;
use archive::plan::PlanError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use etcd_data::view::ViewError;

/// A problem as an answer.
pub(super) fn response(problem: &Problem) -> Response {
    (status(problem.kind), Json(problem)).into_response()
}

fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Usage => StatusCode::BAD_REQUEST,
        Kind::Missing => StatusCode::NOT_FOUND,
        Kind::Corrupt => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Denied | Kind::Withheld => StatusCode::FORBIDDEN,
    }
}

/// What went wrong with the archive.
pub(super) fn of_archive(error: &Error) -> Problem {
    let problem = Problem { causes: causes(error), ..Problem::new(word(error.kind()), error.to_string()) };
    match error {
        Error::Plan(plan) => of_plan(problem, plan),
        Error::NothingLeft { source, set_aside, .. } => {
            of_plan(Problem { causes: in_words(set_aside).collect(), ..problem }, source)
        }
        Error::TooEarly { first: Some(first), .. } => problem.remedy(format!("what there is begins at {first}")),
        Error::Pick { place, source } => {
            let problem = Problem::new(problem.kind, format!("{source}: {place}"));
            match source {
                PickError::Nothing => problem.remedy("there is one as soon as the first full is sealed"),
                _ => problem,
            }
        }
        Error::Object { key, .. } | Error::Snapshot { key, .. } => {
            Problem { what: format!("{key} cannot be used"), ..problem }
                .remedy("another point may do without it; verifying the archive tells what else is wrong")
        }
        Error::Store(_) => problem.remedy("the destination's settings, credentials and network decide about that"),
        _ => problem,
    }
}

fn of_plan(problem: Problem, error: &PlanError) -> Problem {
    match error {
        PlanError::Before { first: Some(first), .. } => {
            problem.remedy(format!("revision {first} is the first that there is"))
        }
        PlanError::After { last, .. } => problem.remedy(format!("revision {last} is the last that there is")),
        PlanError::Hole { hole, .. } => {
            let before = format!("revision {} is the last before the hole", hole.before.to);
            let beyond = hole.beyond.map(|beyond| format!(", revision {} the first after it", beyond.from));
            problem.remedy(before + &beyond.unwrap_or_default())
        }
        _ => problem,
    }
}

/// What went wrong with a point that is open.
pub(super) fn of_view(error: &ViewError) -> Problem {
    Problem { causes: causes(error), ..Problem::new(word(error.kind()), error.to_string()) }
}

/// What went wrong with its records.
pub(super) fn of_data(error: &etcd_data::Error) -> Problem {
    Problem { causes: causes(error), ..Problem::new(word(error.kind()), error.to_string()) }
}

fn causes(error: &dyn std::error::Error) -> Vec<String> {
    std::iter::successors(error.source(), |error| (**error).source()).map(ToString::to_string).collect()
}

fn word(kind: etcd_data::Kind) -> Kind {
    match kind {
        etcd_data::Kind::Usage => Kind::Usage,
        etcd_data::Kind::Missing => Kind::Missing,
        etcd_data::Kind::Corrupt => Kind::Corrupt,
        etcd_data::Kind::Unsupported => Kind::Unsupported,
        etcd_data::Kind::Conflict => Kind::Conflict,
        etcd_data::Kind::Unavailable => Kind::Unavailable,
        etcd_data::Kind::Denied => Kind::Denied,
    }
}
