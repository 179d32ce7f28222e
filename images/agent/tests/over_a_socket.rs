//! The agent over a socket pair, as seen by the host.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use hamlyn_agent::protocol::{Bytes, Event, Exit, MAX_OUTPUT, MAX_REQUEST, What};

struct Host {
    input: BufReader<UnixStream>,
    output: UnixStream,
}

impl Host {
    fn new() -> Host {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let input = BufReader::new(theirs.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, theirs, "vm7").unwrap());
        let mut host = Host { input: BufReader::new(ours.try_clone().unwrap()), output: ours };
        assert!(matches!(host.hear().what, What::Ready { name, .. } if name == "vm7"));
        host
    }

    fn say(&mut self, line: &str) {
        writeln!(self.output, "{line}").unwrap();
    }

    fn hear(&mut self) -> Event {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn hear_error(&mut self, id: Option<u64>, text: &str) {
        let event = self.hear();
        assert_eq!(event.id, id);
        assert!(matches!(&event.what, What::Error(error) if error.contains(text)), "{event:?}");
    }

    fn hear_refusal(&mut self, id: u64, text: &str) {
        let event = self.hear();
        assert_eq!(event.id, Some(id));
        assert!(matches!(&event.what, What::Refused(reason) if reason.contains(text)), "{event:?}");
    }
}

fn event(id: u64, what: What) -> Event {
    Event { id: Some(id), what }
}

#[test]
fn program_output_and_exit_are_reported() {
    let mut host = Host::new();
    host.say(r#"{"id":1,"run":{"argv":["sh","-c","echo $GREETING; exit 3"],"env":{"GREETING":"good day"}}}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("good day".into())));
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(3))));
}

#[test]
fn standard_error_is_reported_separately() {
    let mut host = Host::new();
    host.say(r#"{"id":1,"run":{"argv":["sh","-c","echo oh >&2"]}}"#);
    assert_eq!(host.hear(), event(1, What::Stderr("oh".into())));
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(0))));
}

#[test]
fn concurrent_programs_read_their_own_input() {
    let mut host = Host::new();
    for id in [1, 2] {
        host.say(&format!(r#"{{"id":{id},"run":{{"argv":["cat"],"stdin":true}}}}"#));
    }
    host.say(r#"{"id":2,"stdin":"second\n"}"#);
    assert_eq!(host.hear(), event(2, What::Stdout("second".into())));
    host.say(r#"{"id":1,"stdin":"first\n"}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("first".into())));
    host.say(r#"{"id":2,"eof":{}}"#);
    assert_eq!(host.hear(), event(2, What::Exit(Exit::Code(0))));
    host.say(r#"{"id":1,"kill":9}"#);
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Signal(9))));
}

#[test]
fn output_is_limited_by_the_window() {
    let mut host = Host::new();
    // Each line costs 65.
    host.say(r#"{"id":1,"run":{"argv":["sh","-c","echo a; echo b; echo c"],"window":130}}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("a".into())));
    assert_eq!(host.hear(), event(1, What::Stdout("b".into())));
    // Other programs are not blocked, and the program's death loses no output.
    host.say(r#"{"id":2,"run":{"argv":["sh","-c","sleep 0.2; echo d"]}}"#);
    assert_eq!(host.hear(), event(2, What::Stdout("d".into())));
    assert_eq!(host.hear(), event(2, What::Exit(Exit::Code(0))));
    host.say(r#"{"id":1,"more":65}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("c".into())));
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(0))));
}

#[test]
fn raw_program_uses_bytes_user_gets_home() {
    let mut host = Host::new();
    host.say(
        r#"{"id":1,"run":{"argv":["sh","-c","head -c 3; printf '\\377' >&2"],"stdin":true,"raw":true}}"#,
    );
    host.say(r#"{"id":1,"bytes":"AP/+"}"#);
    // Output, error output and the receipt of input come from three threads, in any order.
    let mut heard = [host.hear(), host.hear(), host.hear()].map(|event| event.what);
    heard.sort_by_key(|what| match what {
        What::OutBytes(_) => 0,
        What::Took(_) => 1,
        _ => 2,
    });
    let said = What::OutBytes(Bytes(vec![0, 255, 254]));
    assert_eq!(heard, [said, What::Took(3), What::ErrBytes(Bytes(vec![255]))]);
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(0))));
    host.say(r#"{"id":2,"run":{"argv":["sh","-c","cd; pwd; echo $USER"],"uid":0,"home":true}}"#);
    if Path::new("/root").is_dir() && rustix::process::getuid().is_root() {
        assert_eq!(host.hear(), event(2, What::Stdout("/root".into())));
        assert_eq!(host.hear(), event(2, What::Stdout("root".into())));
    }
}

#[test]
fn a_signal_reaches_what_the_program_started() {
    let mut host = Host::new();
    host.say(r#"{"id":1,"run":{"argv":["sh","-c","sleep 1000 & echo up; wait"]}}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("up".into())));
    host.say(r#"{"id":1,"kill":15}"#);
    // The event is sent only once no process holds the output open: the sleeper is dead, too.
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Signal(15))));
}

#[test]
fn wrong_requests_are_answered_and_change_nothing() {
    let mut host = Host::new();
    host.say(r#"{"id":1,"run":{"argv":["cat"],"stdin":true}}"#);
    host.say("");
    host.say("what?");
    host.hear_error(None, "not a request");
    host.say(&"x".repeat(MAX_REQUEST + 1));
    host.hear_error(None, "too long (limit 65536 bytes)");
    host.say(r#"{"id":1,"run":{"argv":["cat"]}}"#);
    host.hear_refusal(1, "run 1 is already running");
    host.say(r#"{"id":2,"run":{"argv":[]}}"#);
    host.hear_error(Some(2), "argv is empty");
    host.say(r#"{"id":2,"run":{"argv":["no-such-program"]}}"#);
    host.hear_error(Some(2), "no-such-program");
    host.say(r#"{"id":2,"kill":9}"#);
    host.hear_refusal(2, "run 2 is not running");
    host.say(r#"{"id":1,"kill":4711}"#);
    host.hear_refusal(1, "signal 4711 does not exist");
    host.say(r#"{"id":3,"read":"/no/such/file"}"#);
    host.hear_error(Some(3), "/no/such/file");
    host.say(r#"{"id":1,"stdin":"still here\n"}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("still here".into())));
}

#[test]
fn a_missing_loader_is_named() {
    let mut host = Host::new();
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let (loader, other) = (b"/lib64/ld-linux-x86-64.so.2", b"/lib64/no-such-loader.so.22");
    let mut dynamic = fs::read("/bin/true").unwrap();
    let at = dynamic.windows(loader.len()).position(|bytes| bytes == loader).unwrap();
    dynamic[at..at + loader.len()].copy_from_slice(other);
    let dynamic = program("dynamic", &dynamic);
    let script = program("script", b"#!/no/such/interpreter -e\n");
    let chain = program("chain", format!("#!{}\n", dynamic.display()).as_bytes());
    for (path, why) in [
        (
            &dynamic,
            "needs the dynamic loader /lib64/no-such-loader.so.22, which is not there: link it statically",
        ),
        (&script, "needs the interpreter /no/such/interpreter, which is not there"),
        (&chain, "needs the dynamic loader /lib64/no-such-loader.so.22"),
    ] {
        host.say(&format!(r#"{{"id":1,"run":{{"argv":["{}"]}}}}"#, path.display()));
        host.hear_error(Some(1), why);
        // By its name, found through PATH.
        let (name, path) = (path.file_name().unwrap().to_str().unwrap(), folder.path().display());
        host.say(&format!(r#"{{"id":1,"run":{{"argv":["{name}"],"env":{{"PATH":"/none:{path}"}}}}}}"#));
        host.hear_error(Some(1), why);
    }
    host.say(r#"{"id":1,"run":{"argv":["./nothing"]}}"#);
    host.hear_error(Some(1), "No such file");
}

#[test]
fn an_ended_program_is_forgotten() {
    let mut host = Host::new();
    for _ in 0..2 {
        host.say(r#"{"id":1,"run":{"argv":["true"]}}"#);
        assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(0))));
    }
}

#[test]
fn a_long_line_of_output_comes_in_pieces() {
    let mut host = Host::new();
    host.say(r#"{"id":1,"run":{"argv":["sh","-c","head -c 65537 /dev/zero | tr '\\0' x"]}}"#);
    assert_eq!(host.hear(), event(1, What::Stdout("x".repeat(MAX_OUTPUT))));
    assert_eq!(host.hear(), event(1, What::Stdout("x".into())));
    assert_eq!(host.hear(), event(1, What::Exit(Exit::Code(0))));
}

#[test]
fn a_file_is_read() {
    let mut host = Host::new();
    host.say(r#"{"id":5,"read":"/proc/sys/kernel/ostype"}"#);
    assert_eq!(host.hear(), event(5, What::Data("Linux\n".into())));
    host.say(r#"{"id":6,"read":"/dev/zero"}"#);
    host.hear_error(Some(6), "too long (limit 262144 bytes)");
}
