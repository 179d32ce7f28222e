//! Plots, as SVG.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::engine::goals::number;

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
    /// What is along the horizontal axis, and how that is divided.
    pub x: (String, Scale),
    /// What is along the vertical axis, and how that is divided.
    pub y: (String, Scale),
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
    /// Whether it is the paper's, and not measured here.
    pub paper: bool,
}

impl Curve {
    /// One that was measured here.
    pub fn ours(label: impl Into<String>, points: Vec<Point>) -> Self {
        Self { label: label.into(), points, paper: false }
    }
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

/// Colours that are told apart by who does not see all of them, too (Okabe and Ito), but for black:
/// that is the paper's.
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
    // A name for who does not see it; and a page gives it the width that it has.
    let start = format!("<svg role=\"img\" aria-label=\"{}\"", escape(&figure.title));
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

/// Whether a point is somewhere on the axes.
fn fits(figure: &Figure, point: &Point) -> bool {
    let fits = |value: f64, scale: Scale| value.is_finite() && (scale == Scale::Linear || value > 0.0);
    fits(point.x, figure.x.1) && fits(point.y, figure.y.1)
}

/// Where an axis starts and ends.
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
        .x_desc(figure.x.0.as_str())
        .y_desc(figure.y.0.as_str())
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

/// A line for each curve: how it is drawn, and its name.
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

/// A number on an axis: 20k, 5M.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", number(value / 1e6)),
        size if size >= 1e4 => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

/// Text within SVG.
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
        let text = || "t \"&\"".to_owned();
        let (key, title, answers) = ("k".into(), text(), text());
        Figure {
            key,
            title,
            answers,
            paper: text(),
            x: (text(), x),
            y: (text(), y),
            curves: vec![ours, paper],
        }
    }

    #[test]
    fn a_drawing_has_every_point_every_name_and_no_raw_text() {
        for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
            let drawing = svg(&figure(&[(16.0, 20.0), (64.0, 25.0), (256.0, 90.0)], x, y)).unwrap();
            // Three points of each curve, and one beside each name.
            assert_eq!(drawing.matches("<circle").count(), 8);
            assert!(drawing.contains("a &lt; b") && drawing.contains("the paper"));
            assert!(!drawing.contains("t \"&\""));
        }
    }

    #[test]
    fn what_cannot_be_drawn_does_no_harm() {
        for points in [&[][..], &[(0.0, 0.0)], &[(1.0, 1.0)], &[(f64::NAN, 1.0), (2.0, f64::INFINITY)]] {
            for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
                let drawing = svg(&figure(points, x, y)).unwrap();
                assert!(drawing.trim_end().ends_with("</svg>") && drawing.len() < 50_000, "{drawing}");
            }
        }
    }
}
