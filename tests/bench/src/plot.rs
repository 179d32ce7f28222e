//! Plots, as SVG.

use std::fmt::Write;

use crate::goals::number;

/// A plot's contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in files.
    pub key: String,
    /// Its title.
    pub title: String,
    /// The paper's figure, table or section that its curves answer.
    pub answers: String,
    /// What the paper measured, or what else a reader needs.
    pub paper: String,
    /// What is along the horizontal axis.
    pub x: String,
    /// What is along the vertical axis.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// The 99th percentile, where there is one.
    pub high: Option<f64>,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// By powers.
    Log,
}

const COLOURS: [&str; 9] =
    ["#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#dfab01", "#64473a", "#e03e3e", "#3b5bdb"];

/// The drawing's size and its margins, in pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// One axis: values from `low` to `high` along `from` to `to`.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, scale: Scale, from: f64, to: f64) -> Self {
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let values: Vec<f64> = values.filter(fits).collect();
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let (low, high) = match scale {
            _ if values.is_empty() => (1.0, 10.0),
            Scale::Linear => (0.0, if high > 0.0 { high * 1.05 } else { 1.0 }),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            Scale::Log => (low / 1.2, high * 1.2),
        };
        Self { scale, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear_ticks(self.high),
            Scale::Log => {
                let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
                let wide = self.high / self.low > 300.0;
                let steps: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
                all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            }
        }
    }
}

/// At most 7 round numbers from 0 to `high`.
fn linear_ticks(high: f64) -> Vec<f64> {
    let rough = high / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough);
    let step = step.unwrap_or(high);
    (0..=6).map(|tick| f64::from(tick) * step).filter(|tick| *tick <= high).collect()
}

/// Draws a figure.
pub fn svg(figure: &Figure, scale: Scale) -> String {
    let points = || figure.curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::over(points().map(|point| point.x), scale, LEFT, WIDTH - RIGHT);
    // On an even scale the tail would press everything else to the ground.
    let tall = points().map(|point| match (scale, point.high) {
        (Scale::Log, Some(high)) => high,
        _ => point.y,
    });
    let y = Axis::over(points().map(|point| point.y).chain(tall), scale, HEIGHT - BOTTOM, TOP);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&figure.title)
    );
    grid(&mut out, &x, &y, figure);
    for (curve, colour) in figure.curves.iter().zip(COLOURS.iter().cycle()) {
        let shown = |point: &&Point| scale == Scale::Linear || (point.x > 0.0 && point.y > 0.0);
        let place = |point: &Point, value: f64| format!("{:.1},{:.1}", x.at(point.x), y.at(value));
        let line: Vec<String> =
            curve.points.iter().filter(shown).map(|point| place(point, point.y)).collect();
        let tail = curve.points.iter().filter(shown).filter_map(|point| Some(place(point, point.high?)));
        let tail: Vec<String> = tail.collect();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
            line.join(" ")
        );
        if scale == Scale::Log && !tail.is_empty() {
            let _ = write!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.35\" stroke-dasharray=\"3 3\"/>",
                tail.join(" ")
            );
        }
        for place in &line {
            let (cx, cy) = place.split_once(',').unwrap_or_default();
            let _ = write!(out, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.4\" fill=\"{colour}\"/>");
        }
    }
    out.push_str("</svg>");
    out
}

fn grid(out: &mut String, x: &Axis, y: &Axis, figure: &Figure) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            short(tick)
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(tick)
        );
    }
    let middle = (TOP + bottom) / 2.0;
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        escape(&figure.x),
        escape(&figure.y)
    );
}

/// The curves' names and colours.
pub fn legend(figure: &Figure) -> String {
    let entry = |(curve, colour): (&Curve, &&str)| {
        let (answers, label) = (escape(&figure.answers), escape(&curve.label));
        format!("<span><i style=\"background:{colour}\"></i>{answers}: {label}</span>")
    };
    figure.curves.iter().zip(COLOURS.iter().cycle()).map(entry).collect()
}

/// A number on an axis: 20k, 5M.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", number(value / 1e6)),
        size if size >= 1e4 => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

/// Text within HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: &[(f64, f64)]) -> Figure {
        let points = points.iter().map(|&(x, y)| Point { x, y, high: Some(y * 3.0) }).collect();
        let curve = Curve { label: "a < b".into(), points };
        let text = || "t \"&\"".to_owned();
        Figure {
            key: "k".into(),
            title: text(),
            answers: text(),
            paper: text(),
            x: text(),
            y: text(),
            curves: vec![curve],
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(linear_ticks(58.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(linear_ticks(0.9), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        let log = Axis::over([20.0, 5000.0].into_iter(), Scale::Log, 0.0, 1.0);
        assert_eq!(log.ticks(), [100.0, 1000.0]);
    }

    #[test]
    fn an_axis_puts_its_ends_at_its_ends() {
        let axis = Axis::over([0.0, 100.0].into_iter(), Scale::Linear, 50.0, 250.0);
        assert!((axis.at(0.0) - 50.0).abs() < 1e-9);
        assert!((axis.at(105.0) - 250.0).abs() < 1e-9);
        let axis = Axis::over([10.0, 1000.0].into_iter(), Scale::Log, 0.0, 100.0);
        assert!((axis.at(100.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_drawing_has_every_point_and_no_raw_text() {
        for scale in [Scale::Linear, Scale::Log] {
            let drawing = svg(&figure(&[(16.0, 20.0), (64.0, 25.0), (256.0, 90.0)]), scale);
            assert_eq!(drawing.matches("<circle").count(), 3);
            assert!(drawing.contains("t &quot;&amp;&quot;") && !drawing.contains("t \"&\""));
        }
        assert!(legend(&figure(&[])).contains("a &lt; b"));
    }

    #[test]
    fn what_cannot_be_drawn_does_no_harm() {
        for points in [&[][..], &[(0.0, 0.0)], &[(1.0, 1.0)], &[(f64::NAN, 1.0), (2.0, f64::INFINITY)]] {
            for scale in [Scale::Linear, Scale::Log] {
                let drawing = svg(&figure(points), scale);
                assert!(drawing.ends_with("</svg>") && drawing.len() < 10_000, "{drawing}");
            }
        }
    }
}
