//! Requests that are understood, or a problem that says why not; and answers.

use api::problem::{Kind, Problem};
use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::looks::problem::response;

/// What stands behind the question mark.
pub(super) struct Query<T>(pub(super) T);

/// What stands in the body, as JSON that says so: so no form of another site's page can send it.
pub(super) struct Body<T>(pub(super) T);

/// An answer, or why there is none. Neither is kept anywhere: the next one may be another.
pub(super) struct Answer<T>(pub(super) Result<T, Problem>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let asked = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        asked.map(|query| Self(query.0)).map_err(|error| response(&usage(&error.body_text())))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let asked = Json::<T>::from_request(request, state).await;
        asked.map(|body| Self(body.0)).map_err(|error| response(&usage(&error.body_text())))
    }
}

fn usage(why: &str) -> Problem {
    Problem::new(Kind::Usage, why)
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let mut response = match self.0 {
            Ok(answer) => Json(answer).into_response(),
            Err(problem) => response(&problem),
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
