//! Traces, to a collector that the environment names as OpenTelemetry has it.

use std::env;

use etcd_data::Kind;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;

/// What is on its way to the collector. Dropped, it is sent.
pub struct Traces(SdkTracerProvider);

/// Each of these names where a collector is.
const COLLECTORS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

impl Traces {
    /// Begins to send them, if there is a collector.
    pub fn begin() -> Result<Option<Self>, Failure> {
        if COLLECTORS.iter().all(|name| env::var_os(name).is_none_or(|url| url.is_empty())) {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().build();
        let exporter = exporter.map_err(|error| {
            let named = COLLECTORS.join(" or ");
            Failure::because(Kind::Usage, "traces cannot be sent", &error).hint(format!("{named} names a collector"))
        })?;
        // Who is told by OTEL_SERVICE_NAME what to be called, is called so.
        let mut resource = Resource::builder();
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("refloat");
        }
        let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter);
        Ok(Some(Self(provider.build())))
    }

    /// What makes traces of spans.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("refloat"))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that does not take them is not worth more than that.
        let _ = self.0.shutdown();
    }
}
