//! Servers and clients of Debian.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Pair, Part, reports, stop, wait_for_port};
use crate::network::{root, wait_until};
use crate::turn::LIMIT;

pub(super) const ALL: [Part; 5] = [
    ("redis", redis),
    ("memcached", memcached),
    ("nginx", nginx),
    ("iperf3", iperf3),
    ("PostgreSQL", postgresql),
];

/// For other cards.
pub(super) const SOME: [Part; 2] = [("redis", redis), ("nginx", nginx)];

const REDIS: &str = "redis-server --bind 0.0.0.0 --protected-mode no --save '' --daemonize yes >/dev/null";

fn redis(pair: &Pair) -> Result<()> {
    let (client, server) = (pair.client(), pair.server());
    pair.begin("redis")?;
    root(server, &format!("{} {REDIS}", pair.under("redis")))?;
    wait_for_port(server, 6379)?;
    let under = pair.under("redis");
    for (connections, requests) in [(1, 300), (50, 3000)] {
        pair.begin("benchmark")?;
        let said = root(
            client,
            &format!(
                "timeout {LIMIT} {} redis-benchmark -h vm1 -t set,get -d 1000 -n {requests} -c {connections} --csv
                redis-cli -h vm1 strlen key:__rand_int__",
                pair.under("benchmark")
            ),
        )?;
        let has = |what: &str| said.lines().any(|line| line.starts_with(&format!("\"{what}\",\"")));
        ensure!(has("SET") && has("GET") && said.ends_with("\n1000"), "{said}");
        // Each command has its connections. Some of many may send few requests.
        pair.switched(client, "benchmark", connections.max(2))?;
    }
    let said = root(
        client,
        &format!(
            "head -c 1000000 /dev/urandom > /tmp/value
            {under} redis-cli -h vm1 -x set value < /tmp/value
            printf 'ping\\nping\\nping\\nget value\\n' | {under} redis-cli -h vm1 > /tmp/got
            tail -c 1000001 /tmp/got | head -c 1000000 | cmp - /tmp/value && echo same
            printf 'MULTI\\nSET number 41\\nINCR number\\nEXEC\\nGET number\\n' | {under} redis-cli -h vm1"
        ),
    )?;
    ensure!(said == "OK\nsame\nOK\nQUEUED\nQUEUED\nOK\n42\n42", "{said}");
    // The server may receive a value in one piece, so its connection may stay TCP.
    pair.switched(client, "redis", 2)?;
    messages_of_redis(pair)?;
    stop(server, "redis-server")?;
    pair.switched(server, "redis", 54)?;
    redis_is_killed(pair)
}

/// A client that only listens, once its connection has been switched.
const LISTENER: &str = "import socket
server = socket.create_connection(('vm1', 6379)).makefile('rwb', buffering=0)
for _ in range(20):
    server.write(b'PING\\r\\n')
    assert server.readline() == b'+PONG\\r\\n'
server.write(b'SUBSCRIBE news\\r\\n')
print('listens', flush=True)
texts = 0
while texts < 20:
    line = server.readline().strip()
    if line.startswith(b'text-'):
        print(line.decode())
        texts += 1";

fn messages_of_redis(pair: &Pair) -> Result<()> {
    let client = pair.client();
    pair.begin("messages")?;
    let under = pair.under("messages");
    root(client, &format!("cat > /root/listener.py <<'END'\n{LISTENER}\nEND"))?;
    let command = format!("timeout {LIMIT} {under} python3 /root/listener.py");
    let mut listener = client.run_as(0, ["sh", "-c", &command])?;
    listener.line()?;
    let said = root(
        client,
        &format!(
            "until redis-cli -h vm1 pubsub numsub news | grep -q 1; do sleep 0.1; done
            for i in $(seq 20); do echo \"publish news text-$i\"; done | {under} redis-cli -h vm1 | uniq"
        ),
    )?;
    ensure!(said == "1", "{said}");
    let texts: Vec<String> = (1..=20).map(|number| format!("text-{number}")).collect();
    let heard = listener.finish_text()?;
    ensure!(heard == texts, "{heard:?}");
    pair.switched(client, "messages", 2)?;
    Ok(())
}

/// Clients of a killed server get an error, and do not wait.
fn redis_is_killed(pair: &Pair) -> Result<()> {
    pair.begin("killed")?;
    let under = pair.under("killed");
    root(pair.server(), &format!("{under} {REDIS}"))?;
    wait_for_port(pair.server(), 6379)?;
    let mut clients = [
        format!("printf 'ping\\nping\\nping\\nblpop nothing 0\\n' | timeout {LIMIT} {under} redis-cli -h vm1 2>&1; echo ended $?"),
        format!("timeout {LIMIT} {under} redis-benchmark -h vm1 -t get -n 100000000 -c 5 -q 2>&1 | tr '\\r' '\\n' | tail -n 3; echo ended $?"),
    ]
    .map(|command| pair.client().run_as(0, ["sh".into(), "-c".into(), command]))
    .into_iter()
    .collect::<Result<Vec<_>>>()?;
    // Enough requests of each client that its connection has been switched.
    let is_busy = "{
        redis-cli info clients > /tmp/clients; redis-cli info stats > /tmp/stats
        grep -q 'blocked_clients:1' /tmp/clients && grep -q 'connected_clients:[78]' /tmp/clients &&
            test $(sed -n 's/total_commands_processed:\\([0-9]*\\).*/\\1/p' /tmp/stats) -ge 2000
    }";
    wait_until(pair.server(), is_busy)?;
    root(pair.server(), "pkill -9 -x redis-server")?;
    for client in &mut clients {
        let said = client.finish_text()?.join("\n");
        ensure!(!said.contains("ended 124") && said.contains("ended"), "{said}");
        ensure!(said.contains("rror") || said.contains("refused"), "{said}");
    }
    pair.switched(pair.client(), "killed", 6)?;
    Ok(())
}

fn memcached(pair: &Pair) -> Result<()> {
    let (client, server) = (pair.client(), pair.server());
    pair.begin("memcached")?;
    root(server, &format!("{} memcached -d -u root -l 0.0.0.0 -c 1024 -m 64", pair.under("memcached")))?;
    wait_for_port(server, 11211)?;
    let script = include_str!("memcached.py");
    let run = format!(
        "cat > /root/memcached.py <<'END'\n{script}\nEND
        timeout {LIMIT} {} python3 /root/memcached.py",
        pair.under("memcached")
    );
    let said = root(client, &run)?;
    ensure!(said == "all values are right", "{said}");
    stop(server, "memcached")?;
    for vm in [client, server] {
        pair.switched(vm, "memcached", 100)?;
    }
    Ok(())
}

const NGINX: &str = "worker_processes 2;
error_log /tmp/nginx.errors;
events { worker_connections 256; }
http {
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
    server { listen 80; root /srv; }
}";

fn nginx(pair: &Pair) -> Result<()> {
    let (client, server) = (pair.client(), pair.server());
    pair.begin("nginx")?;
    let start = format!(
        "set -e
        for size in 0 1 100000 20000000; do head -c $size /dev/urandom > /srv/$size; done
        cat > /root/nginx.conf <<'END'\n{NGINX}\nEND
        {} nginx -c /root/nginx.conf",
        pair.under("nginx")
    );
    root(server, &start)?;
    wait_for_port(server, 80)?;
    let (mut transfers, mut wanted) = (String::new(), Vec::new());
    let sizes = [0, 1, 100_000, 20_000_000, 1, 100_000, 0, 100_000];
    let sums = sizes.map(|size| format!("/srv/{size}")).join(" ");
    let sums = root(server, &format!("md5sum {sums} | cut -d ' ' -f 1"))?;
    for (number, size) in sizes.into_iter().enumerate() {
        transfers += &format!(" -o /tmp/{number}.got http://vm1/{size}");
        wanted.push(format!("200 {}", u8::from(number == 0)));
    }
    let curl = |under: &str| {
        let said = root(
            client,
            &format!(
                "rm -f /tmp/*.got
                timeout {LIMIT} {under} curl -sS -w '%{{http_code}} %{{num_connects}}\\n' {transfers}
                md5sum /tmp/?.got | cut -d ' ' -f 1"
            ),
        )?;
        ensure!(said == format!("{}\n{sums}", wanted.join("\n")), "{said}, wanted: {wanted:?} {sums}");
        Ok(())
    };
    curl(&pair.under("nginx"))?;
    pair.switched(client, "nginx", 1)?;
    // A client that is not run so gets the same.
    curl("")?;
    pair.begin("ab")?;
    let said = root(
        client,
        &format!("timeout {LIMIT} {} ab -q -k -c 20 -n 600 http://vm1/100000 2>&1", pair.under("ab")),
    )?;
    let values = [
        ("Complete requests:", "600"),
        ("Failed requests:", "0"),
        ("Keep-Alive requests:", "600"),
        ("HTML transferred:", "60000000 bytes"),
    ];
    for (name, value) in values {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        ensure!(line.is_some_and(|line| line.trim() == value), "{name} {value}: {said}");
    }
    pair.switched(client, "ab", 10)?;
    stop(server, "nginx")?;
    pair.switched(server, "nginx", 11)?;
    let errors = root(server, "cat /tmp/nginx.errors; rm /tmp/nginx.errors")?;
    ensure!(errors.is_empty(), "{errors}");
    Ok(())
}

fn iperf3(pair: &Pair) -> Result<()> {
    let (client, server) = (pair.client(), pair.server());
    pair.begin("iperf3")?;
    root(server, &format!("{} iperf3 -s -D", pair.under("iperf3")))?;
    wait_for_port(server, 5201)?;
    // A connection that the server only sends to may stay TCP. Each run has one for control too.
    for (options, least) in [("", 2), ("-R", 1), ("-P 4", 5)] {
        let name = "iperf3-client";
        pair.begin(name)?;
        let run = format!("timeout {LIMIT} {} iperf3 -c vm1 -n 200M -J {options}", pair.under(name));
        let said: Value = serde_json::from_str(&root(client, &run)?)?;
        let [sent, received] = ["sum_sent", "sum_received"].map(|sum| said["end"][sum]["bytes"].as_u64());
        // iperf3 does not count a write of 128 KiB in which its thread is cancelled.
        let limit = sent.map(|sent| sent + 4 * (128 << 10));
        let is_right =
            received.is_some_and(|bytes| bytes > 0) && received <= limit && said["error"].is_null();
        ensure!(is_right, "iperf3 {options}: {said}");
        let report = pair.switched(client, name, least).with_context(|| format!("iperf3 {options}"))?;
        ensure!(options == "-R" || report.channel_bytes > report.tcp_bytes, "{options}: {report:?}");
    }
    stop(server, "iperf3")?;
    pair.switched(server, "iperf3", 8)?;
    Ok(())
}

fn postgresql(pair: &Pair) -> Result<()> {
    let (client, server) = (pair.client(), pair.server());
    pair.begin("postgresql")?;
    let start = format!(
        "set -e
        data=$(echo /var/lib/postgresql/*/main); configuration=$(echo /etc/postgresql/*/main)
        echo 'host all all all trust' > /tmp/hba; chmod 644 /tmp/hba
        mkdir -p /run/postgresql; chown postgres /run/postgresql
        cd /tmp
        su postgres -s /bin/sh -c \"{} $(echo /usr/lib/postgresql/*/bin)/postgres -D $data -c ssl=off \\
            -c config_file=$configuration/postgresql.conf -c hba_file=/tmp/hba -c listen_addresses='*' \\
            > /tmp/postgres.log 2>&1 < /dev/null &\"",
        pair.under("postgresql")
    );
    root(server, &start)?;
    wait_for_port(server, 5432)?;
    let under = pair.under("postgresql");
    let said = root(
        client,
        &format!(
            "set -e
            export PGHOST=vm1 PGUSER=postgres PGDATABASE=postgres
            for i in $(seq 6000); do psql -c 'select 1' > /dev/null 2>&1 && break; sleep 0.1; done
            timeout {LIMIT} {under} pgbench -i -s 1 -q > /dev/null 2>&1
            timeout {LIMIT} {under} pgbench -n -c 4 -j 2 -t 25 2>&1 | grep actually
            {under} psql -t -A -c 'select count(*) from pgbench_history' \\
                -c 'select count(*) from pgbench_accounts' \\
                -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'"
        ),
    )?;
    ensure!(said == "number of transactions actually processed: 100/100\n100\n100000\nt", "{said}");
    stop(server, "postgres")?;
    // A server that forks for each connection: whether it is switched is not a matter of this test.
    for vm in [client, server] {
        ensure!(!reports(vm, "postgresql")?.is_empty(), "no report of {}", vm.name());
    }
    Ok(())
}
