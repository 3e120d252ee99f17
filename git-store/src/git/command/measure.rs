//! Metrics and traces of git processes.

use std::{process::ExitStatus, time::Instant};

use ferrite_core::telemetry;
use tracing::{Span, field};

/// Counts a process as running until it ends or is dropped.
#[derive(Debug)]
pub(super) struct RunningProcess(Option<Running>);

#[derive(Debug)]
struct Running {
    name: &'static str,
    span: Span,
    started: Instant,
}

impl RunningProcess {
    pub(super) fn start(name: &'static str) -> Self {
        metrics::counter!("ferrite_git_processes_total", "command" => name).increment(1);
        metrics::gauge!("ferrite_git_processes_running", "command" => name).increment(1.0);
        let span = if telemetry::is_sampled() {
            tracing::info_span!(
                "git",
                otel.name = name,
                otel.kind = "internal",
                otel.status_code = field::Empty,
                process.executable.name = "git",
                process.exit.code = field::Empty,
            )
        } else {
            Span::none()
        };
        Self(Some(Running { name, span, started: Instant::now() }))
    }

    pub(super) fn ended(&mut self, status: ExitStatus) {
        let Some(running) = self.0.take() else { return };
        if let Some(code) = status.code() {
            running.span.record("process.exit.code", code);
        }
        if !status.success() {
            running.span.record("otel.status_code", "ERROR");
        }
        running.record();
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            metrics::counter!("ferrite_git_processes_killed_total", "command" => running.name).increment(1);
            running.span.record("otel.status_code", "ERROR");
            running.record();
        }
    }
}

impl Running {
    fn record(self) {
        metrics::gauge!("ferrite_git_processes_running", "command" => self.name).decrement(1.0);
        let elapsed = self.started.elapsed();
        metrics::histogram!("ferrite_git_process_duration_seconds", "command" => self.name).record(elapsed);
    }
}
