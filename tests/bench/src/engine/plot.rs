//! Plots, as SVG.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::engine::goals::number;
use crate::engine::track::Track;

/// A plot's contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in files.
    pub key: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The paper's figure, table or section that its curves reproduce.
    pub answers: &'static str,
    /// The paper's measurement, or another note for the reader.
    pub note: String,
    /// Label and scale of the horizontal axis.
    pub x: (&'static str, Scale),
    /// Label and scale of the vertical axis.
    pub y: (&'static str, Scale),
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
    /// Whether it is the paper's curve instead of a measured one.
    pub paper: bool,
}

impl Curve {
    /// Makes a curve that was measured here.
    pub fn ours(label: impl Into<String>, points: Vec<Point>) -> Self {
        Self { label: label.into(), points, paper: false }
    }

    /// Makes a curve of the paper's.
    pub fn paper(label: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, high: None }).collect();
        Self { label: format!("the paper: {label}"), points, paper: true }
    }
}

/// Returns a curve for each label, in the order of the labels, with a point for each track. The
/// functions return its value and its 99th percentile.
pub fn curves<'t>(
    tracks: impl IntoIterator<Item = &'t Track>,
    value: impl Fn(&Track) -> Option<f64>,
    high: impl Fn(&Track) -> Option<f64>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for track in tracks {
        let index = curves.iter().position(|curve| curve.label == track.label).unwrap_or_else(|| {
            curves.push(Curve::ours(&track.label, Vec::new()));
            curves.len() - 1
        });
        curves[index].points.extend(value(track).map(|y| Point { x: track.x as f64, y, high: high(track) }));
    }
    curves
}

/// One point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis.
    pub y: f64,
    /// The 99th percentile, if available.
    pub high: Option<f64>,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic.
    Log,
}

/// Colours that colour-blind readers can distinguish, too (Okabe and Ito). Black is left out,
/// because it is the paper's colour.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(160, 110, 0),
    RGBColor(110, 80, 160),
    RGBColor(140, 140, 140),
];

/// The drawing's sizes, in pixels: the plot itself, and a line for each curve below it.
const WIDTH: u32 = 860;
const HEIGHT: u32 = 440;
const LINE: u32 = 22;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a figure, with the names of its curves.
pub fn svg(figure: &Figure) -> anyhow::Result<String> {
    let mut out = String::new();
    let height = HEIGHT + LINE * figure.curves.len() as u32 + LINE / 2;
    {
        let root = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        draw(&root, figure).map_err(|error| anyhow!("cannot draw {}: {error}", figure.key))?;
        root.present().map_err(|error| anyhow!("cannot draw {}: {error}", figure.key))?;
    }
    // The label is for screen readers. The page sets the width.
    let start = format!("<svg role=\"img\" aria-label=\"{}\"", escape(figure.title));
    Ok(out.replacen("<svg", &start, 1))
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(root: &Area<'_>, figure: &Figure) -> Drawn {
    root.fill(&WHITE)?;
    let (plot, names) = root.split_vertically(HEIGHT);
    let shown = || figure.curves.iter().flat_map(|curve| &curve.points).filter(|point| fits(figure, point));
    let x = range(shown().map(|point| point.x), figure.x.1);
    let tops = shown().filter_map(|point| (figure.y.1 == Scale::Log).then_some(point.high?));
    let y = range(shown().map(|point| point.y).chain(tops), figure.y.1);
    match (figure.x.1, figure.y.1) {
        (Scale::Linear, Scale::Linear) => chart(&plot, figure, x, y)?,
        (Scale::Linear, Scale::Log) => chart(&plot, figure, x, y.log_scale())?,
        (Scale::Log, Scale::Linear) => chart(&plot, figure, x.log_scale(), y)?,
        (Scale::Log, Scale::Log) => chart(&plot, figure, x.log_scale(), y.log_scale())?,
    }
    legend(&names, figure)
}

/// Returns whether a point can be drawn on the axes.
fn fits(figure: &Figure, point: &Point) -> bool {
    let fits = |value: f64, scale: Scale| value.is_finite() && (scale == Scale::Linear || value > 0.0);
    fits(point.x, figure.x.1) && fits(point.y, figure.y.1)
}

/// Returns the start and the end of an axis.
fn range(values: impl Iterator<Item = f64>, scale: Scale) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    match scale {
        _ if high <= 0.0 => 1.0..10.0,
        Scale::Linear => 0.0..high * 1.05,
        Scale::Log => low / 1.3..high * 1.3,
    }
}

fn chart<X, Y>(area: &Area<'_>, figure: &Figure, x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .x_desc(figure.x.0)
        .y_desc(figure.y.0)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for (index, curve) in figure.curves.iter().enumerate() {
        let style = style(index, curve);
        let points: Vec<&Point> = curve.points.iter().filter(|point| fits(figure, point)).collect();
        let line = || points.iter().map(|point| (point.x, point.y));
        if curve.paper {
            chart.draw_series(DashedLineSeries::new(line(), 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(line(), style))?;
        }
        chart.draw_series(line().map(|place| Circle::new(place, 3, style.filled())))?;
        if figure.y.1 == Scale::Log {
            let tail =
                points.iter().filter_map(|point| Some((point.x, point.high.filter(|high| *high > 0.0)?)));
            chart.draw_series(DashedLineSeries::new(tail, 2, 4, style.color.mix(0.5).stroke_width(1)))?;
        }
    }
    Ok(())
}

fn style(index: usize, curve: &Curve) -> ShapeStyle {
    let colour = if curve.paper { BLACK } else { COLOURS[index % COLOURS.len()] };
    colour.stroke_width(2)
}

/// Draws a line for each curve: a sample of its style, and its name.
fn legend(area: &Area<'_>, figure: &Figure) -> Drawn {
    for (index, curve) in figure.curves.iter().enumerate() {
        let (style, y) = (style(index, curve), (index as u32 * LINE + LINE / 2) as i32);
        let line: Vec<(i32, i32)> = vec![(80, y), (116, y)];
        if curve.paper {
            for piece in 0..4 {
                let start = 80 + piece * 10;
                area.draw(&PathElement::new(vec![(start, y), (start + 6, y)], style))?;
            }
        } else {
            area.draw(&PathElement::new(line, style))?;
        }
        area.draw(&Circle::new((98, y), 3, style.filled()))?;
        let font = ("sans-serif", 14).into_font().color(&BLACK);
        area.draw(&Text::new(curve.label.clone(), (126, y - 7), font))?;
    }
    Ok(())
}

/// Formats a number for an axis: 20k, 5M.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", number(value / 1e6)),
        size if size >= 1e4 => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

/// Escapes text for SVG.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALES: [Scale; 2] = [Scale::Linear, Scale::Log];

    fn figure(points: &[(f64, f64)], x: Scale, y: Scale) -> Figure {
        let points: Vec<Point> = points.iter().map(|&(x, y)| Point { x, y, high: Some(y * 3.0) }).collect();
        let ours = Curve::ours("a < b", points.clone());
        let paper = Curve { label: "the paper".into(), points, paper: true };
        let (key, text) = ("k", "t \"&\"");
        let (note, curves) = (text.to_owned(), vec![ours, paper]);
        Figure { key, title: text, answers: text, note, x: (text, x), y: (text, y), curves }
    }

    #[test]
    fn drawing_has_points_names_and_escaped_text() {
        for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
            let drawing = svg(&figure(&[(16.0, 20.0), (64.0, 25.0), (256.0, 90.0)], x, y)).unwrap();
            // Three points of each curve, and one next to each name.
            assert_eq!(drawing.matches("<circle").count(), 8);
            assert!(drawing.contains("a &lt; b") && drawing.contains("the paper"));
            assert!(!drawing.contains("t \"&\""));
        }
    }

    #[test]
    fn curve_has_the_points_of_its_label() {
        let track = |label: &str, x, samples: &[u64]| {
            let track = Track::of_samples("x", samples);
            Track { label: label.to_owned(), x, ..track }
        };
        let tracks = [track("card", 4, &[1000]), track("TCP", 4, &[]), track("card", 16, &[2000])];
        let curves = curves(&tracks, Track::p50_us, |_| None);
        let points = |curve: &Curve| curve.points.iter().map(|point| point.x).collect::<Vec<_>>();
        assert_eq!(curves.iter().map(|curve| &curve.label[..]).collect::<Vec<_>>(), ["card", "TCP"]);
        assert_eq!(curves.iter().map(points).collect::<Vec<_>>(), [vec![4.0, 16.0], vec![]]);
    }

    #[test]
    fn undrawable_points_are_skipped() {
        for points in [&[][..], &[(0.0, 0.0)], &[(1.0, 1.0)], &[(f64::NAN, 1.0), (2.0, f64::INFINITY)]] {
            for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
                let drawing = svg(&figure(points, x, y)).unwrap();
                assert!(drawing.trim_end().ends_with("</svg>") && drawing.len() < 50_000, "{drawing}");
            }
        }
    }
}
