//! The examples of docs/programming.md, which contains the same text. They run over one card's
//! loopback.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::{StreamListener, StreamPair, StreamReceiver, StreamSender};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{
    Arrived, Card, EndPoint, EndReason, Error, ErrorKind, Manager, Message, Pages, Polling, Ready,
    ReceiverClass, Seed,
};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::unix::AsyncFd;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let card = Card::open_default()?;
    let manager = Manager::create(&card)?;
    tagged_write(&card)?;
    datagrams(&manager)?;
    stream(&manager)?;
    without_copying(&manager)?;
    own_memory(&card, &manager)?;
    own_receiver_class(&manager)?;
    errors(&manager)?;
    polling(&card)?;
    event_loop(&manager)?;
    in_tokio(&manager)?;
    waking(&manager)?;
    threads(&card)?;
    match names(&card).and_then(|()| streams_by_name(&manager)) {
        Err(error) if error.downcast_ref().is_some_and(|error| matches!(error, Error::Unsupported(_))) => {
            println!("names: not here, {error}");
        }
        outcome => outcome?,
    }
    println!("all examples have run");
    Ok(())
}

fn tagged_write(card: &Card) -> Outcome {
    // Room for 4096 bytes, and for 64 unread tags.
    let mut receiver = TagReceiver::create(card, 4096, 64)?;
    let ticket = receiver.ticket()?;

    // In another process, with the ticket: write 5 bytes at offset 100, with tag 7.
    let sender = TagSender::new(card.create_terminus()?);
    sender.send(&ticket, b"hello", 100, 7)?;

    let tag = receiver.recv_timeout(Duration::from_secs(10))?;
    let mut bytes = [0; 5];
    receiver.read(100, &mut bytes)?;
    assert_eq!((tag, &bytes), (7, b"hello"));
    Ok(())
}

fn datagrams(manager: &Manager) -> Outcome {
    let patience = Duration::from_secs(10);
    let mut questions = DatagramReceiver::create(manager, 4096)?;
    let ticket = questions.ticket()?;

    // In another process, with the ticket. The receiver of the reply exists before the question is
    // asked.
    let replies = DatagramReceiver::create(manager, 4096)?;
    let sender = DatagramSender::new(manager);
    sender.send(&ticket, b"six by nine?", 0, Some(&replies.ticket()?))?;

    let question = questions.recv_timeout(patience)?;
    assert_eq!(question.to_vec(), b"six by nine?");
    let reply_to = question.reply().ok_or("no reply is wanted")?;
    // Ready for the next question. `question` borrows this receiver's memory and cannot be used
    // from here on.
    questions.rearm();
    sender.send(&reply_to, b"42", 0, None)?;

    assert_eq!(replies.recv_timeout(patience)?.to_vec(), b"42");
    Ok(())
}

fn stream(manager: &Manager) -> Outcome {
    let mut receiver = StreamReceiver::create(manager)?;
    let seed: Seed = receiver.make_seed()?;

    // In another process, with the seed.
    let mut sender = StreamSender::from_seed(manager, &seed)?;
    sender.send(b"small sends ")?;
    sender.send(b"become one record")?;
    sender.flush()?;
    sender.close_timeout(Duration::from_secs(10))?;

    let mut text = Vec::new();
    while let Some(record) = receiver.recv_timeout(Duration::from_secs(10))? {
        // The record is read where the card has put it. Nothing has copied it before.
        let (number, start) = (record.number(), text.len());
        text.resize(start + record.len(), 0);
        record.read(0, &mut text[start..])?;
        // The sender may reuse the space.
        receiver.release(number)?;
    }
    assert_eq!(text, b"small sends become one record");
    Ok(())
}

fn without_copying(manager: &Manager) -> Outcome {
    let place = DatagramReceiver::create(manager, 1 << 20)?;
    let sender = DatagramSender::new(manager);

    // Memory that the card can read directly.
    let mut buffer = manager.allocate(1 << 20)?;
    buffer.write(0, b"a long message")?;
    // The buffer has moved into `sent`, so it cannot change while the card reads it.
    let sent = sender.send_buffer(&place.ticket()?, buffer, 0, None)?;
    let buffer = sent.wait_timeout(Duration::from_secs(10))?;

    assert_eq!(buffer.len(), 1 << 20);
    assert_eq!(place.recv_timeout(Duration::from_secs(10))?.len(), 1 << 20);
    Ok(())
}

fn own_memory(card: &Card, manager: &Manager) -> Outcome {
    // Whole pages, so that this also runs without a virtual machine. In a guest, any bytes work.
    let area = card.lend(Pages::new(64 * 1024))?;
    let place = DatagramReceiver::create_in(manager, &area, 1)?.pop().ok_or("one was asked for")?;
    let mut text = Pages::new(64 * 1024);
    text.as_mut().fill(b'x');
    let buffer = manager.lend(text)?;

    // Sends any part of it to any number of peers. Data in flight can be neither changed nor taken
    // back.
    let handle = DatagramSender::new(manager).send_from(&place.ticket()?, &buffer, 100..50_100, 0, None)?;
    handle.wait_timeout(Duration::from_secs(10))?;

    // In place: each byte is loaded separately, because the card could write to it.
    let datagram = place.recv_timeout(Duration::from_secs(10))?;
    assert!(datagram.cells().iter().all(|cell| cell.load(Ordering::Relaxed) == b'x'));

    // Plain bytes again, once the card can no longer write there.
    drop(place);
    let mut mine: Pages = area.take_back().map_err(|failed| failed.error)?;
    assert_eq!(mine.as_mut()[..50_001], [vec![b'x'; 50_000], vec![0]].concat());
    buffer.take_back::<Pages>().map_err(|failed| failed.error)?;
    Ok(())
}

fn own_receiver_class(manager: &Manager) -> Outcome {
    /// Receives numbers: one in each message's metadata.
    #[derive(Debug)]
    struct Sum {
        end_point: EndPoint,
        sum: AtomicU64,
    }

    impl ReceiverClass for Sum {
        fn process_arrival(&self, arrival: &Arrived<'_>, _: &mut Ready) {
            self.sum.fetch_add(arrival.metadata.user()[0].into(), Ordering::Relaxed);
            self.end_point.reopen(arrival.entry);
        }

        // The queue was overrun and messages were lost. This receiver ignores that.
        fn arrivals_lost(&self, _: &mut Ready) {}
    }

    let end_point = EndPoint::create(manager, 4, 0)?;
    let receiver = end_point.open(|end_point| Sum { end_point, sum: AtomicU64::new(0) });
    for (entry, number) in [(0, 5), (1, 30), (2, 7)] {
        let ticket = receiver.end_point.ticket(entry)?;
        let _ = manager.terminus().send(&Message::to(&ticket).metadata(&[number]), &[])?;
    }

    // Handles messages for all of the manager's receivers until this one has the awaited sum.
    let sum = manager.wait_until_timeout("sum of three", Duration::from_secs(10), || {
        let sum = receiver.sum.load(Ordering::Relaxed);
        Ok((sum == 42).then_some(sum))
    })?;
    assert_eq!(sum, 42);
    Ok(())
}

fn errors(manager: &Manager) -> Outcome {
    let receiver = DatagramReceiver::create(manager, 100)?;
    let sender = DatagramSender::new(manager);

    // The library rejects an invalid send before it leaves the process.
    let refused = sender.send(&receiver.ticket()?, &[0; 101], 0, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "101 bytes at offset 0 reach past the end of the ticket's buffer (limit 100)"
    );

    // No message arrives. The caller chooses the timeout.
    match receiver.recv_timeout(Duration::from_millis(10)) {
        Ok(datagram) => println!("{} bytes", datagram.len()),
        Err(error) if error.is_timed_out() => println!("later, perhaps: {error}"),
        Err(Error::PeerLost(loss)) => println!("never, because {loss}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn polling(card: &Card) -> Outcome {
    // One polls for up to 20 ms before it sleeps; the other sleeps at once.
    let eager = Manager::create_with(card, 64, Polling::up_to(Duration::from_millis(20)))?;
    let lazy = Manager::create_with(card, 64, Polling::NEVER)?;
    for manager in [eager, lazy] {
        let place = DatagramReceiver::create(&manager, 64)?;
        DatagramSender::new(&manager).send(&place.ticket()?, b"wake up", 0, None)?;
        assert_eq!(place.recv_timeout(Duration::from_secs(10))?.len(), 7);
    }
    Ok(())
}

fn event_loop(manager: &Manager) -> Outcome {
    let mut places = DatagramReceiver::create_group(manager, 3, 64)?;
    let sender = DatagramSender::new(manager);
    for place in &places {
        sender.send(&place.ticket()?, b"one of three", 0, None)?;
    }

    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(16));
    poll.registry().register(&mut SourceFd(&manager.as_fd().as_raw_fd()), Token(0), Interest::READABLE)?;
    let mut come = 0;
    loop {
        for place in &mut places {
            match place.try_recv() {
                Ok(datagram) => come += datagram.len(),
                Err(error) if error.is_would_block() => continue,
                Err(error) => return Err(error.into()),
            }
            place.rearm();
        }
        if come == 3 * b"one of three".len() {
            return Ok(());
        }
        // True: a message has arrived since the last poll, and the file may not become readable for
        // it.
        if !manager.arm()? {
            poll.poll(&mut events, None)?;
        }
    }
}

fn in_tokio(manager: &Manager) -> Outcome {
    let mut place = DatagramReceiver::create(manager, 64)?;
    let ticket = place.ticket()?;

    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        // The newer calls are unsafe, because a file descriptor's number does not imply ownership
        // of the file. A borrowed file does.
        #[allow(deprecated)]
        let arrivals = AsyncFd::with_interest(manager.as_fd(), tokio::io::Interest::READABLE)?;
        for word in ["first", "second", "third"] {
            DatagramSender::new(manager).send(&ticket, word.as_bytes(), 0, None)?;
            let came = loop {
                match place.try_recv() {
                    Ok(datagram) => break datagram.to_vec(),
                    Err(error) if error.is_would_block() => {}
                    Err(error) => return Err(error.into()),
                }
                if !manager.arm()? {
                    // Clears the readiness of this arrival. Only a later one makes the file
                    // readable again.
                    arrivals.readable().await?.clear_ready();
                }
            };
            assert_eq!(came, word.as_bytes());
            place.rearm();
        }
        Ok(())
    })
}

fn waking(manager: &Manager) -> Outcome {
    let place = DatagramReceiver::create(manager, 64)?;
    let waker = manager.waker();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| place.recv().map(|datagram| datagram.len()));
        waker.wake();
        match waiting.join().map_err(|_| "a thread has panicked")? {
            Err(error) if error.kind() == ErrorKind::Woken => Ok(()),
            other => Err(format!("it was to be woken: {other:?}").into()),
        }
    })
}

fn threads(card: &Card) -> Outcome {
    // One manager per thread or process, so that none waits for another.
    std::thread::scope(|scope| {
        let workers = [0, 1, 2].map(|number: u8| {
            scope.spawn(move || -> hamlyn::Result<u8> {
                let manager = Manager::create(card)?;
                let place = DatagramReceiver::create(&manager, 1)?;
                DatagramSender::new(&manager).send(&place.ticket()?, &[number], 0, None)?;
                Ok(place.recv_timeout(Duration::from_secs(10))?.to_vec()[0])
            })
        });
        for (number, worker) in (0..).zip(workers) {
            assert_eq!(worker.join().map_err(|_| "a thread has panicked")??, number);
        }
        Ok(())
    })
}

fn names(card: &Card) -> Outcome {
    // The server.
    let listener = card.listen("programming")?;
    let server = std::thread::spawn(move || -> hamlyn::Result<EndReason> {
        let request = listener.request_timeout(Duration::from_secs(30))?;
        println!("host {} says {:?}", request.host(), String::from_utf8_lossy(request.private()));
        // Tickets and seeds fit into the private data that each side passes.
        let connection = request.accept(b"welcome")?;
        // The connection carries no data. It reports the peer's end, once, with the reason.
        Ok(connection.wait_end_timeout(Duration::from_secs(30))?.reason)
    });

    // The client: on any host. In this example it is the same host.
    let host = card.info()?.host.ok_or("the link is down")?;
    let connection = card.connect(host, "programming", b"good morning")?;
    assert_eq!(connection.private(), b"welcome");
    connection.close(b"")?;

    assert_eq!(server.join().map_err(|_| "the server has panicked")??, EndReason::Closed);
    Ok(())
}

fn streams_by_name(manager: &Manager) -> Outcome {
    let patience = Duration::from_secs(30);
    let listener = StreamListener::bind(manager, "louder")?;
    let card = manager.card().clone();
    let client = std::thread::spawn(move || -> Result<String, Error> {
        let host = card.info()?.host.ok_or(Error::LinkDown)?;
        let mut pair = StreamPair::connect_timeout(&Manager::create(&card)?, host, "louder", patience)?;
        pair.sender.send(b"good morning")?;
        pair.sender.close_timeout(patience)?;
        let mut answer = String::new();
        while let Some(record) = pair.receiver.recv_timeout(patience)? {
            answer += &String::from_utf8_lossy(&record.to_vec());
            let number = record.number();
            pair.receiver.release(number)?;
        }
        Ok(answer)
    });

    let mut pair = listener.accept_timeout(patience)?;
    let mut text = String::new();
    pair.receiver.read_to_string(&mut text)?;
    pair.sender.send(text.to_uppercase().as_bytes())?;
    pair.sender.close_timeout(patience)?;

    assert_eq!(client.join().map_err(|_| "the client has panicked")??, "GOOD MORNING");
    Ok(())
}
