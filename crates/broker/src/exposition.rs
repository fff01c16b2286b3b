//! The figures that routing and the shard client keep themselves, in Prometheus' text format.

use std::fmt::Write;

use pointsman_routing::{Sample, SampleKind};

use crate::metrics::{OF_ROUTING, OF_SHARD_CLIENT};

/// Writes figures; those of one name must stand one after the other.
pub(crate) fn render(samples: &[Sample]) -> String {
    let mut text = String::new();
    for figures in samples.chunk_by(|one, other| one.name == other.name) {
        let [first, ..] = figures else { continue };
        head(&mut text, first);
        figures.iter().for_each(|figure| line(&mut text, figure));
    }
    text
}

fn head(text: &mut String, sample: &Sample) {
    let name = sample.name;
    if let Some((_, meaning)) = OF_ROUTING.iter().chain(&OF_SHARD_CLIENT).find(|(known, _)| *known == name) {
        write(text, format_args!("# HELP {name} {meaning}\n"));
    }
    let kind = match sample.kind {
        SampleKind::Counter => "counter",
        SampleKind::Gauge => "gauge",
    };
    write(text, format_args!("# TYPE {name} {kind}\n"));
}

fn line(text: &mut String, sample: &Sample) {
    text.push_str(sample.name);
    for (at, (label, value)) in sample.labels.iter().enumerate() {
        let open = if at == 0 { '{' } else { ',' };
        write(text, format_args!("{open}{label}=\"{}\"", escaped(value)));
    }
    if !sample.labels.is_empty() {
        text.push('}');
    }
    write(text, format_args!(" {}\n", sample.value));
}

/// A label's value, with what would end it or its line escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

fn write(text: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _always = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &'static str, kind: SampleKind, labels: &[(&'static str, &str)], value: f64) -> Sample {
        let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
        Sample { name, kind, labels, value }
    }

    #[test]
    fn every_name_has_one_head_and_every_figure_a_line() {
        let name = "pointsman_broker_enabled_nodes";
        let text = render(&[
            sample(name, SampleKind::Gauge, &[("cluster", "east")], 3.0),
            sample(name, SampleKind::Gauge, &[("cluster", "we\"st")], 0.5),
            sample("other_total", SampleKind::Counter, &[], 7.0),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "# HELP pointsman_broker_enabled_nodes Nodes that the cluster lets queries go to.",
                "# TYPE pointsman_broker_enabled_nodes gauge",
                r#"pointsman_broker_enabled_nodes{cluster="east"} 3"#,
                r#"pointsman_broker_enabled_nodes{cluster="we\"st"} 0.5"#,
                "# TYPE other_total counter",
                "other_total 7",
            ]
        );
    }
}
