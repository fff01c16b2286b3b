//! The broker's settings.

use std::time::Duration;

use pointsman_failure_detector::{Detector, Kind, Settings as DetectorSettings};
use pointsman_instance_selector::AdaptiveKind;

use super::super::scenario::Broker;
use crate::{ScenarioError, yaml::At};

const NEW_SEGMENT_WINDOW: Duration = Duration::from_secs(300);

const ADAPTIVE: [(&str, AdaptiveKind); 4] = [
    ("none", AdaptiveKind::None),
    ("latency", AdaptiveKind::Latency),
    ("in_flight", AdaptiveKind::InFlight),
    ("hybrid", AdaptiveKind::Hybrid),
];

/// The settings under `broker`, which may be missing.
pub(super) fn broker(at: Option<&At<'_>>) -> Result<Broker, ScenarioError> {
    let mut broker = Broker {
        fail_open: false,
        fail_open_multi_stage: false,
        fail_open_strict: false,
        detector: detector_defaults(),
        new_segment_window: NEW_SEGMENT_WINDOW,
        adaptive: AdaptiveKind::None,
    };
    let Some(at) = at else { return Ok(broker) };
    let mut fields = at.fields()?;
    let switches = [
        ("fail_open", &mut broker.fail_open),
        ("fail_open_multi_stage", &mut broker.fail_open_multi_stage),
        ("fail_open_strict", &mut broker.fail_open_strict),
    ];
    for (key, switch) in switches {
        *switch = fields.optional(key, At::boolean)?.unwrap_or(*switch);
    }
    broker.detector = fields.optional("detector", detector)?.unwrap_or(broker.detector);
    broker.new_segment_window =
        fields.optional("new_segment_window", At::duration)?.unwrap_or(broker.new_segment_window);
    broker.adaptive = fields.optional("adaptive", |at| at.word(&ADAPTIVE))?.unwrap_or_default();
    fields.finish()?;
    Ok(broker)
}

/// As in the spec, but without a limit of the delay.
fn detector_defaults() -> DetectorSettings {
    DetectorSettings { max_delay: Duration::ZERO, ..DetectorSettings::default() }
}

fn detector(at: &At<'_>) -> Result<DetectorSettings, ScenarioError> {
    let mut settings = detector_defaults();
    if at.is_word("none") {
        settings.kind = Kind::None;
        return Ok(settings);
    }
    if at.text().is_ok() {
        return Err(at.error("a map of settings, or none"));
    }
    let mut fields = at.fields()?;
    settings.initial_delay =
        fields.optional("initial_delay", At::duration)?.unwrap_or(settings.initial_delay);
    settings.factor = fields.optional("factor", At::number)?.unwrap_or(settings.factor);
    settings.max_delay = fields.optional("max_delay", At::duration)?.unwrap_or(settings.max_delay);
    settings.max_retries = fields.optional("max_retries", At::integer)?.unwrap_or(settings.max_retries);
    fields.finish()?;
    // What is out of range is told at once, with its line.
    Detector::new(settings.clone()).map_err(|error| at.error(error))?;
    Ok(settings)
}
