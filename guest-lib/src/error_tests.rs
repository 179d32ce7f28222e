//! Texts and kinds of errors.

use rustix::io::Errno;

use super::*;

#[test]
fn quota_error_says_how_to_get_more() {
    let error = Error::Quota { object: "termini", user: 1000, held: 28, limit: 28 };
    assert_eq!(
        error.to_string(),
        "user 1000 holds 28 termini of the card and may hold no more (limit 28): the rest is others'. A card with more \
         (hamlyn card --termini, --queues, --sram) has more for each, and so has another share \
         (/sys/module/hamlyn/parameters/share)"
    );
    // These depend on no option of the card.
    let error = Error::Quota { object: CONNECTIONS, user: 1000, held: 9, limit: 9 }.to_string();
    assert!(error.contains("parameters/share") && !error.contains("--"), "{error}");
}

#[test]
fn missing_device_error_has_a_hint() {
    let error = Error::system("open /dev/hamlyn0")(Errno::NOENT.into());
    let text = "cannot open /dev/hamlyn0: No such file or directory (os error 2): is the driver loaded \
        (insmod hamlyn.ko)? HAMLYN_CARD names another card, vfio-user:PATH a card's socket";
    // A `main` that returns the error prints the second.
    assert_eq!((error.to_string().as_str(), format!("{error:?}").as_str()), (text, text));
    assert_eq!(error.kind(), ErrorKind::System);
    for (device, variable) in [("shrimp1", "SHRIMP_CARD "), ("clan0", "CLAN_CARD "), ("dart12", "DART_CARD ")]
    {
        let error = Error::system(format!("open /dev/{device}"))(Errno::NOENT.into());
        assert!(error.to_string().contains(variable), "{error}");
    }
    for (action, errno) in [("open /dev/hamlyn0", Errno::NODEV), ("map it", Errno::NOENT)] {
        assert!(!Error::system(action)(errno.into()).to_string().contains("insmod"), "{action}");
    }
}

#[test]
fn system_error_kind_follows_errno() {
    let kind = |errno: Errno| Error::system("try")(errno.into()).kind();
    assert_eq!(kind(Errno::NOSPC), ErrorKind::Exhausted);
    assert_eq!(kind(Errno::DQUOT), ErrorKind::Exhausted);
    assert_eq!(kind(Errno::INVAL), ErrorKind::Invalid);
    assert_eq!(kind(Errno::NODEV), ErrorKind::System);
    assert_eq!(Error::system("try")(io::ErrorKind::Other.into()).kind(), ErrorKind::System);
}

#[test]
fn io_error_keeps_kind_and_source() {
    let exhausted = Error::Exhausted { object: "slots", limit: 4, remedy: "wait for summer" };
    let io = io::Error::from(exhausted);
    assert_eq!(io.kind(), io::ErrorKind::StorageFull);
    assert_eq!(io.downcast::<Error>().unwrap().kind(), ErrorKind::Exhausted);
    let timed_out = Error::TimedOut { what: "thing", after: Duration::ZERO };
    assert_eq!(io::Error::from(timed_out).kind(), io::ErrorKind::TimedOut);
    assert_eq!(io::Error::from(Error::Closed("the stream")).kind(), io::ErrorKind::BrokenPipe);
    // The caller must see a wake-up: the standard library retries by itself on `Interrupted`.
    assert_eq!(io::Error::from(Error::Woken { what: "thing" }).kind(), io::ErrorKind::Other);
    let system = Error::system("try")(Errno::ACCESS.into());
    assert_eq!(io::Error::from(system).kind(), io::ErrorKind::PermissionDenied);
}
