//! What the terminal shows: lines that scroll between a title and a list of keys.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line as Text, Span};

use super::keys::Key;
use super::rates::{Line, Tone, lines};
use super::reading::Reading;
use crate::commands::stat::nothing;

/// Columns by which one key scrolls to the side.
const ASIDE: usize = 8;

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Screen {
    title: String,
    lines: Vec<Line>,
    /// First line that is shown.
    top: usize,
    /// First column that is shown.
    left: usize,
    /// Number of lines that were shown last.
    height: usize,
}

impl Screen {
    pub(super) fn new() -> Screen {
        Screen { title: "hamlyn top: reads the counters".into(), ..Screen::default() }
    }

    /// Shows a new reading, with its rates since an earlier one.
    pub(super) fn update(&mut self, now: &Reading, before: Option<&Reading>, every: Duration) {
        self.lines = lines(now, before);
        if now.is_empty() {
            self.lines = vec![Line { text: nothing(), tone: Tone::Plain }];
        }
        let machines: usize = now.machines.values().map(Vec::len).sum();
        let counts = [
            count(machines, "machine"),
            count(now.cards.len(), "card"),
            count(now.ports.len(), "port"),
            format!("every {} s", every.as_secs()),
        ];
        self.title = format!("hamlyn top: {}", counts.join(", "));
        if !now.silent.is_empty() {
            self.title += &format!(", {} not answering", now.silent.len());
        }
    }

    /// Scrolls. Keys that leave have no effect here.
    pub(super) fn press(&mut self, key: Key) {
        let page = self.height.max(1);
        match key {
            Key::Leave => {}
            Key::Up => self.top = self.top.saturating_sub(1),
            Key::Down => self.top += 1,
            Key::PageUp => self.top = self.top.saturating_sub(page),
            Key::PageDown => self.top += page,
            Key::Home => self.top = 0,
            Key::End => self.top = self.lines.len(),
            Key::Left => self.left = self.left.saturating_sub(ASIDE),
            Key::Right => self.left += ASIDE,
        }
        self.limit(0);
    }

    /// Keeps the text on the screen: no more is scrolled than is hidden.
    fn limit(&mut self, width: usize) {
        self.top = self.top.min(self.lines.len().saturating_sub(self.height));
        let longest = self.lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
        self.left = self.left.min(longest.saturating_sub(width));
    }

    /// Draws all.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
        let [title, body, keys] = Layout::vertical(parts).areas(frame.area());
        self.height = body.height.into();
        self.limit(body.width.into());
        frame.render_widget(Span::styled(&self.title, Style::new().bold()), title);
        let shown = self.lines.iter().skip(self.top).take(self.height);
        for (row, line) in body.rows().zip(shown) {
            let text: String = line.text.chars().skip(self.left).collect();
            frame.render_widget(Text::styled(text, style(line.tone)), row);
        }
        frame.render_widget(Text::from(self.foot()), keys);
    }

    /// Returns what keys do, and which lines are shown if not all are.
    fn foot(&self) -> String {
        let (all, last) = (self.lines.len(), self.lines.len().min(self.top + self.height));
        if all <= self.height {
            return "q leaves".into();
        }
        format!("q leaves; arrows and Page keys scroll: lines {} to {last} of {all}", self.top + 1)
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Title => Style::new().reversed(),
        Tone::Plain => Style::new(),
        Tone::Waiting => Style::new().fg(Color::Yellow),
        Tone::Silent => Style::new().fg(Color::Red),
    }
}

fn count(number: usize, of: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {of}{end}")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use hamlyn_host::stat::{Answer, Report, StatError};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Modifier;
    use serde_json::{Value, json};

    use super::*;

    const EVERY: Duration = Duration::from_secs(1);

    /// Returns a reading of a switch with this number of ports.
    fn switch(at: Instant, ports: u64, packets: u64, waiting: u64) -> Answer {
        let port = |number: u64| {
            let port = json!({ "attached": true, "packets_in": packets * number, "waiting": waiting });
            (number.to_string(), port)
        };
        let counters = json!({ "ports": (0..ports).map(port).collect::<serde_json::Map<String, Value>>() });
        let report = Ok(Report { kind: "switch".into(), name: "switch".into(), pid: 9, counters });
        Answer { socket: "/run/switch-1-9.stat".into(), at, report }
    }

    fn shown(ports: u64, waiting: u64) -> Screen {
        let start = Instant::now();
        let before = Reading::of(vec![switch(start, ports, 0, 0)], None);
        let now = Reading::of(vec![switch(start + EVERY, ports, 20, waiting)], None);
        let mut screen = Screen::new();
        screen.update(&now, Some(&before), EVERY);
        screen
    }

    fn terminal(width: u16, height: u16) -> Terminal<TestBackend> {
        Terminal::new(TestBackend::new(width, height)).unwrap()
    }

    /// Returns the lines on the screen.
    fn text(screen: &mut Screen, terminal: &mut Terminal<TestBackend>) -> Vec<String> {
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let rows = buffer.content().chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    /// Returns the ports on the screen.
    fn ports(screen: &mut Screen, terminal: &mut Terminal<TestBackend>) -> Vec<String> {
        let lines = text(screen, terminal);
        let names = lines.iter().filter_map(|line| line.strip_prefix("switch:")?.split(' ').next());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn screen_has_title_tables_and_keys() {
        let mut terminal = terminal(100, 8);
        let lines = text(&mut shown(2, 0), &mut terminal);
        assert_eq!(lines[0], "hamlyn top: 0 machines, 0 cards, 2 ports, every 1 s");
        assert!(lines[1].starts_with("port      pid  state  in/s"), "{lines:?}");
        assert!(lines[2].starts_with("switch:0    9     up     0"), "{lines:?}");
        assert!(lines[3].starts_with("switch:1    9     up    20"), "{lines:?}");
        assert_eq!(lines[4..], ["", "", "", "q leaves"]);
        let buffer = terminal.backend().buffer();
        assert!(buffer[(0, 0)].modifier.contains(Modifier::BOLD));
        assert!(buffer[(0, 1)].modifier.contains(Modifier::REVERSED));
        assert_eq!(buffer[(0, 2)].fg, Color::Reset);
    }

    #[test]
    fn backpressure_and_silence_have_colours() {
        let mut terminal = terminal(100, 8);
        text(&mut shown(2, 3), &mut terminal);
        assert_eq!(terminal.backend().buffer()[(0, 2)].fg, Color::Yellow);
        let socket = std::path::PathBuf::from("/run/card-1-7.stat");
        let report = Err(StatError::Silent { socket: socket.clone(), patience: EVERY });
        let silent = Reading::of(vec![Answer { socket, at: Instant::now(), report }], None);
        let mut screen = Screen::new();
        screen.update(&silent, None, EVERY);
        let lines = text(&mut screen, &mut terminal);
        assert!(lines[0].ends_with("every 1 s, 1 not answering"), "{lines:?}");
        assert!(lines[1].starts_with("card (pid 7) does not answer: no counters from"), "{lines:?}");
        assert_eq!(terminal.backend().buffer()[(0, 1)].fg, Color::Red);
    }

    #[test]
    fn keys_scroll_to_every_line() {
        let (mut screen, mut terminal) = (shown(20, 0), terminal(100, 7));
        assert_eq!(ports(&mut screen, &mut terminal), ["0", "1", "2", "3"]);
        let foot = text(&mut screen, &mut terminal).pop().unwrap();
        assert_eq!(foot, "q leaves; arrows and Page keys scroll: lines 1 to 5 of 21");
        for (key, first) in [
            (Key::Up, "0"),
            (Key::Down, "0"),
            (Key::Down, "1"),
            (Key::PageDown, "6"),
            (Key::Up, "5"),
            (Key::PageUp, "0"),
            (Key::End, "15"),
            (Key::Down, "15"),
            (Key::PageDown, "15"),
            (Key::Home, "0"),
        ] {
            screen.press(key);
            assert_eq!(ports(&mut screen, &mut terminal)[0], first, "{key:?}");
        }
    }

    #[test]
    fn narrow_terminal_scrolls_to_the_side() {
        let (mut screen, mut terminal) = (shown(1, 0), terminal(20, 4));
        assert_eq!(text(&mut screen, &mut terminal)[1], "port      pid  state");
        screen.press(Key::Right);
        assert_eq!(text(&mut screen, &mut terminal)[1], "  pid  state  in/s");
        for _ in 0..100 {
            screen.press(Key::Right);
        }
        assert!(text(&mut screen, &mut terminal)[1].ends_with("lost/s  lost"));
        screen.press(Key::Left);
        assert!(text(&mut screen, &mut terminal)[1].ends_with("/s  lost"));
    }

    #[test]
    fn scrolling_ends_where_fewer_lines_remain() {
        let (mut screen, mut terminal) = (shown(20, 0), terminal(100, 7));
        text(&mut screen, &mut terminal);
        screen.press(Key::End);
        let few = Reading::of(vec![switch(Instant::now(), 1, 0, 0)], None);
        screen.update(&few, None, EVERY);
        assert_eq!(ports(&mut screen, &mut terminal), ["0"]);
        screen.update(&Reading::default(), None, EVERY);
        assert!(text(&mut screen, &mut terminal)[1].starts_with("no card or switch is running (looked in"));
    }

    #[test]
    fn tiny_terminals_are_survived() {
        for (width, height) in [(1, 1), (1, 2), (200, 1)] {
            text(&mut shown(20, 0), &mut terminal(width, height));
        }
    }
}
