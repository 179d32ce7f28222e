//! `hamlyn metrics`

mod exposition;

use std::io::{self, ErrorKind, Read, Write, stdout};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use hamlyn_host::stat;

use super::tell;
use exposition::exposition;

/// How long a request may take to arrive, and its answer to leave.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum length of a request in bytes.
const LONGEST: usize = 8192;

/// Offer the counters of running cards and switches to Prometheus, until Ctrl-C
///
/// Counters are those of hamlyn stat, as hamlyn_card_NAME_total, hamlyn_bus_messages_total and
/// hamlyn_switch_port_NAME_total, of all processes of this user. Each request reads them anew.
/// hamlyn_card_refusals_total is the sum of all refusals by a card. docs/grafana/hamlyn.json is a
/// dashboard over them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn metrics                               then: curl http://127.0.0.1:9464/metrics
  hamlyn metrics --once > /var/lib/node_exporter/hamlyn.prom")]
pub(super) struct MetricsArgs {
    /// Address to listen on. Every process that can connect can read the counters
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Print them once and end
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

pub(super) fn run(args: &MetricsArgs) -> anyhow::Result<()> {
    if args.once {
        return Ok(stdout().write_all(exposition(&stat::all()?).as_bytes())?);
    }
    let cannot = || format!("cannot listen on {}", args.listen);
    let listener = TcpListener::bind(args.listen).with_context(cannot)?;
    tell(&format!("metrics at http://{}/metrics", listener.local_addr().with_context(cannot)?));
    loop {
        // One client at a time, each for a limited time.
        let served = listener.accept().and_then(|(client, _)| serve(client));
        if let Err(error) = served {
            tracing::debug!("a client of the metrics: {error}");
        }
    }
}

fn serve(mut client: TcpStream) -> io::Result<()> {
    let request = request(&mut client)?;
    let (status, body) = match request.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics" | "/", ..] => match stat::all() {
            Ok(reports) => ("200 OK", exposition(&reports)),
            Err(error) => ("500 Internal Server Error", format!("{error:#}\n")),
        },
        ["GET", ..] => ("404 Not Found", "the counters are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET\n".into()),
    };
    client.set_write_timeout(Some(PATIENCE))?;
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the first line of a request, once its head is there.
fn request(client: &mut TcpStream) -> io::Result<String> {
    let (end, mut head) = (Instant::now() + PATIENCE, Vec::new());
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        client.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        match client.read(&mut bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&bytes[..count]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Returns the answer to a request.
    fn answer(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0));
        client.write_all(request).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        let _ = server.join().unwrap();
        answer
    }

    #[test]
    fn only_metrics_are_served() {
        assert!(answer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(answer(b"GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(answer(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(answer(b"GET /metrics HTTP/1.1\r\n"), "", "the request ends early");
        assert_eq!(answer(&[b'x'; 20_000]), "", "the request is too long");
    }
}
