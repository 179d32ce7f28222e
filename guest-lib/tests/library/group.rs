//! Group receive, with a card in memory (section 2.5).

use crate::fake::Fake;
use hamlyn::{Card, Share};

#[test]
fn group_receive_notifies_once_for_all_senders() {
    let card = Card::attached(Fake::default().share());
    let area = card.create_area(4000).unwrap();
    let queue = card.create_queue(8).unwrap();
    let slot = card.slot(&area).metadata_entries(2).queue(&queue).create().unwrap();
    for round in 1..=3_u8 {
        let whole = Share::whole(slot.ticket(1).unwrap()).unwrap();
        let mut shares = whole.split_sizes(&[1000, 0, 3000]).unwrap();
        let delegates = shares.pop().unwrap().split(4).unwrap();
        shares.extend(delegates.iter().map(|share| share.to_string().parse::<Share>().unwrap()));
        let terminus = card.create_terminus().unwrap();
        let mut open = shares.len();
        for mut share in shares {
            assert_eq!(queue.try_recv().unwrap(), None, "{open} messages are not sent yet");
            while share.len() > 300 {
                let piece = share.take(300).unwrap();
                let _ = terminus.send(&piece.message(), &[round; 300]).unwrap();
            }
            let rest = vec![round; share.len() as usize];
            let _ = terminus.send(&share.message().metadata(&[round]), &rest[..]).unwrap();
            open -= 1;
        }
        let arrived = queue.try_recv().unwrap().unwrap();
        assert_eq!((slot.entry_of(&arrived), queue.try_recv().unwrap()), (Some(1), None));
        let entry = slot.metadata(1).unwrap();
        assert_eq!((entry.accumulator(), entry.user()[0]), (0, round));
        let mut all = [0; 4000];
        slot.read(0, &mut all).unwrap();
        assert_eq!(all, [round; 4000]);
    }
}
