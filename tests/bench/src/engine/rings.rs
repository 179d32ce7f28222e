//! The rings and the switch alone, in one thread.

use std::num::NonZeroU8;

use anyhow::{Context, bail};
use criterion::{BenchmarkId, Criterion};
use hamlyn_fabric::{Geometry, Header, HostId, Link, Protocol};
use hamlyn_switch::crossbar::Crossbar;

use crate::engine::copies::{SIZES, throughput};

const HEADER: Header =
    Header { destination: HostId(1), source: HostId(0), protocol: Protocol::of(NonZeroU8::MIN) };

/// Measures packets through a ring, and through the switch. Part of their bytes are a card's
/// header.
pub(crate) fn benchmark(criterion: &mut Criterion) -> anyhow::Result<()> {
    for size in SIZES {
        ring(criterion, size)?;
        switch(criterion, size)?;
    }
    Ok(())
}

/// One copy in; the receiver reads the packet in place.
fn ring(criterion: &mut Criterion, size: u32) -> anyhow::Result<()> {
    let (mut near, mut far) = Link::pair(Geometry::default()).context("no link")?;
    let bytes = vec![0x5a; size as usize];
    let (mut asked, mut sent, mut taken) = (false, 0_u64, 0);
    let mut group = criterion.benchmark_group("ring");
    group.throughput(throughput(size));
    group.bench_function(BenchmarkId::from_parameter(format!("{size} bytes")), |bencher| {
        asked = true;
        bencher.iter(|| {
            sent += u64::from(send(&mut near, &bytes));
            taken += u64::from(take(&mut far));
        });
    });
    group.finish();
    all_there(asked, sent, taken)
}

/// From a card's ring to another card's: a copy in, and a copy by the switch.
fn switch(criterion: &mut Criterion, size: u32) -> anyhow::Result<()> {
    let mut crossbar = Crossbar::new(2, Geometry::default());
    let mut attach = |host: u16| {
        let (card, switch) = Link::pair(Geometry::default()).context("no link")?;
        let attached = crossbar.attach(switch.sender, switch.receiver, Some(HostId(host)));
        attached.context("no port").map(|_| card)
    };
    let (mut near, mut far) = (attach(0)?, attach(1)?);
    let bytes = vec![0x5a; size as usize];
    let (mut asked, mut sent, mut taken) = (false, 0_u64, 0);
    let mut group = criterion.benchmark_group("switch");
    group.throughput(throughput(size));
    group.bench_function(BenchmarkId::from_parameter(format!("{size} bytes")), |bencher| {
        asked = true;
        bencher.iter(|| {
            sent += u64::from(send(&mut near, &bytes));
            crossbar.poll();
            crossbar.forward(1);
            taken += u64::from(take(&mut far));
        });
    });
    group.finish();
    all_there(asked, sent, taken)
}

fn send(link: &mut Link, bytes: &[u8]) -> bool {
    let Ok(Some(room)) = link.reserve(HEADER, bytes.len()) else { return false };
    room.copy_from(bytes);
    link.commit();
    true
}

fn take(link: &mut Link) -> bool {
    let there = matches!(link.peek(), Ok(Some(_)));
    if there {
        link.consume();
    }
    there
}

/// Fails if packets are missing, because undelivered packets take almost no time. Zero packets are
/// allowed only if the benchmark was not requested.
fn all_there(asked: bool, sent: u64, taken: u64) -> anyhow::Result<()> {
    if sent != taken || (asked && sent == 0) {
        bail!("{taken} packets arrived of {sent}");
    }
    Ok(())
}
