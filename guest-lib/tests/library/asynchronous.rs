//! Streams for tokio, with a card in memory.

use std::io::ErrorKind;
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::asynchronous::{Hub, ReadHalf, WriteHalf};
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Card, Manager};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs a future to completion. The timeout is only a watchdog.
fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), what).await.unwrap() })
}

fn ends(manager: &Manager, hub: &Hub, options: StreamOptions) -> (WriteHalf, ReadHalf) {
    let receiver = StreamReceiver::create_with(manager, options).unwrap();
    let sender = StreamSender::from_seed(manager, &receiver.make_seed().unwrap()).unwrap();
    (WriteHalf::new(hub, sender), ReadHalf::new(hub, receiver))
}

fn manager() -> (Fake, Manager) {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    (fake, manager)
}

fn small() -> StreamOptions {
    let mut options = StreamOptions::default();
    (options.record_size, options.records, options.max_records) = (10, 4, 4);
    options
}

#[test]
fn streams_of_one_manager_wake_their_own_tasks() {
    let (_fake, manager) = manager();
    run(async {
        let hub = Hub::start(&manager).unwrap();
        let mut tasks = Vec::new();
        for number in 0..50_u8 {
            let (mut to, mut from) = ends(&manager, &hub, small());
            tasks.push(tokio::spawn(async move {
                let mut came = Vec::new();
                from.read_to_end(&mut came).await.unwrap();
                assert_eq!(came, [number; 1000]);
            }));
            tasks.push(tokio::spawn(async move {
                // More than there is room for: it waits for the receiver repeatedly.
                to.write_all(&[number; 1000]).await.unwrap();
                to.shutdown().await.unwrap();
                to.flush().await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn full_work_queue_does_not_end_the_stream() {
    let (fake, manager) = manager();
    run(async {
        let hub = Hub::start(&manager).unwrap();
        let mut options = small();
        (options.records, options.max_records) = (100, 100);
        let (mut to, mut from) = ends(&manager, &hub, options);
        fake.hold(true);
        let sending = tokio::spawn(async move {
            to.write_all(&[7; 900]).await.unwrap();
            to.shutdown().await.unwrap();
        });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!sending.is_finished());
        fake.hold(false);
        let mut came = Vec::new();
        from.read_to_end(&mut came).await.unwrap();
        assert_eq!(came, [7; 900]);
        sending.await.unwrap();
    });
}

#[test]
fn reader_fails_when_the_peer_ends_unexpectedly() {
    let (_fake, manager) = manager();
    run(async {
        let hub = Hub::start(&manager).unwrap();
        let (to, mut from) = ends(&manager, &hub, small());
        let reading = tokio::spawn(async move { from.read(&mut [0; 10]).await.unwrap_err().kind() });
        tokio::task::yield_now().await;
        drop(to);
        assert_eq!(reading.await.unwrap(), ErrorKind::ConnectionReset);
    });
}
