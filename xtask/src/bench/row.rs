//! One figure.

use std::borrow::Cow;

use serde::Serialize;

/// A figure with what it is compared with. Absent parts mean that there is nothing to compare with, or no aim.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    /// What was measured, such as `e2e.q6`.
    pub(super) name: String,
    /// The figure.
    pub(super) value: f64,
    /// Its unit.
    pub(super) unit: Cow<'static, str>,
    /// The baseline's figure in the same run.
    pub(super) baseline: Option<f64>,
    /// `value` by `baseline`.
    pub(super) ratio: Option<f64>,
    /// What it should be, such as `ratio <= 1.4`.
    pub(super) aim: Option<String>,
    /// Whether it is.
    pub(super) holds: Option<bool>,
}

impl Row {
    /// A figure alone.
    pub(super) fn new(name: impl Into<String>, value: f64, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), value, unit: unit.into(), ..Self::default() }
    }

    /// The same against the baseline's figure.
    pub(super) fn against(self, baseline: f64) -> Self {
        Self { baseline: Some(baseline), ratio: Some(self.value / baseline), ..self }
    }

    /// The same with the aim that its ratio is at most `most`.
    pub(super) fn ratio_at_most(self, most: f64) -> Self {
        let holds = self.ratio.map(|ratio| ratio <= most);
        Self { aim: Some(format!("ratio <= {most}")), holds, ..self }
    }

    /// The same with the aim that its ratio is at least `least`.
    pub(super) fn ratio_at_least(self, least: f64) -> Self {
        let holds = self.ratio.map(|ratio| ratio >= least);
        Self { aim: Some(format!("ratio >= {least}")), holds, ..self }
    }

    /// The same with the aim that it is at least `least`.
    pub(super) fn at_least(self, least: f64) -> Self {
        Self { aim: Some(format!(">= {least} {}", self.unit)), holds: Some(self.value >= least), ..self }
    }

    /// The same with the aim that it is at most `most`.
    pub(super) fn at_most(self, most: f64) -> Self {
        Self { aim: Some(format!("<= {most} {}", self.unit)), holds: Some(self.value <= most), ..self }
    }
}

/// All figures for a terminal.
pub(super) fn table(rows: &[Row]) -> String {
    let header = ["name", "value", "unit", "baseline", "ratio", "aim", "holds"].map(str::to_owned);
    let mut lines = vec![header];
    lines.extend(rows.iter().map(cells));
    let widths: Vec<usize> =
        (0..7).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
    let padded = |line: &[String; 7]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect::<Vec<_>>().join("\n")
}

fn cells(row: &Row) -> [String; 7] {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
    let holds = row.holds.map(|holds| if holds { "yes" } else { "NO" }).unwrap_or_default();
    [
        row.name.clone(),
        number(Some(row.value)),
        row.unit.to_string(),
        number(row.baseline),
        number(row.ratio),
        row.aim.clone().unwrap_or_default(),
        holds.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_holds_or_does_not() {
        let row = Row::new("a", 3.0, "ms").against(2.0);
        assert_eq!(row.clone().ratio_at_most(1.5).holds, Some(true));
        assert_eq!(row.clone().ratio_at_most(1.4).holds, Some(false));
        assert_eq!(row.clone().ratio_at_least(1.5).holds, Some(true));
        assert_eq!(row.at_most(2.9).holds, Some(false));
    }

    #[test]
    fn a_figure_is_written_with_every_field() {
        let text = serde_json::to_string(&Row::new("a", 1.0, "ms")).unwrap();
        let whole =
            r#"{"name":"a","value":1.0,"unit":"ms","baseline":null,"ratio":null,"aim":null,"holds":null}"#;
        assert_eq!(text, whole);
    }

    #[test]
    fn columns_line_up() {
        let text = table(&[
            Row::new("long name", 1.0, "ms").against(2.0).ratio_at_most(1.0),
            Row::new("b", 10.0, "MiB"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "long name  1.00   ms    2.00      0.50   ratio <= 1  yes");
        assert_eq!(lines[2], "b          10.00  MiB");
    }
}
