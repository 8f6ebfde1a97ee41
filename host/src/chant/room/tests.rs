//! Who gets how much of the room, and that all of it comes back.

use super::*;

const LIMITS: RoomLimits = RoomLimits {
    per_box: 100,
    per_plugin: 400,
    all: 1000,
};

fn name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

fn room(rooms: &Arc<Rooms>, box_name: &str, plugin: &str) -> Room {
    let plugin = PluginName::parse(plugin).unwrap();
    rooms.room(Some(&name(box_name)), Some(&plugin))
}

fn is_empty(rooms: &Rooms) -> bool {
    let held = rooms.held();
    held.all == 0 && held.boxes.is_empty() && held.plugins.is_empty()
}

#[test]
fn a_box_has_its_own_limit_over_all_its_requests_and_plugins() {
    let rooms = Rooms::new(LIMITS);
    let mut one = room(&rooms, "a", "p");
    let mut two = room(&rooms, "a", "q");
    one.take(60).unwrap();
    two.take(40).unwrap();
    assert_eq!(one.take(1), Err(Full::Box));
    assert_eq!(two.take(1), Err(Full::Box));
    room(&rooms, "b", "p").take(100).unwrap();
    drop(two);
    one.take(40).unwrap();
    drop(one);
    assert!(is_empty(&rooms));
}

#[test]
fn what_is_refused_takes_nothing() {
    let rooms = Rooms::new(LIMITS);
    let mut one = room(&rooms, "a", "p");
    assert_eq!(one.take(101), Err(Full::Box));
    assert_eq!(one.take(usize::MAX), Err(Full::Box));
    assert!(is_empty(&rooms));
    one.take(100).unwrap();
    assert_eq!(one.take(usize::MAX), Err(Full::Box));
    assert_eq!(rooms.held().all, 100);
}

#[test]
fn no_box_holds_more_of_what_is_shared_than_it_leaves_free() {
    let rooms = Rooms::new(RoomLimits {
        per_box: 100,
        per_plugin: 200,
        all: 1000,
    });
    let mut held: Vec<Room> = Vec::new();
    let fill = |held: &mut Vec<Room>, box_name: &str| {
        let mut room = room(&rooms, box_name, "p");
        let taken = (0..200).take_while(|_| room.take(1).is_ok()).count();
        held.push(room);
        taken
    };
    // Alone it has all that a box may have; the more come, the less each gets.
    assert_eq!(fill(&mut held, "a"), 100);
    assert_eq!(fill(&mut held, "b"), 50);
    assert_eq!(fill(&mut held, "c"), 25);
    for number in 0..4 {
        assert!(fill(&mut held, &format!("d{number}")) > 0);
    }
    // Those that have more than is free get no more, the others a little.
    assert_eq!(held[1].take(1), Err(Full::Plugin));
    room(&rooms, "late", "p").take(1).unwrap();
    // Another plugin is another matter.
    room(&rooms, "late", "q").take(100).unwrap();
    held.clear();
    assert!(is_empty(&rooms));
}

#[test]
fn the_host_has_a_limit_over_all_plugins() {
    let rooms = Rooms::new(RoomLimits {
        per_box: 100,
        per_plugin: 200,
        all: 200,
    });
    let mut one = room(&rooms, "a", "p");
    one.take(100).unwrap();
    let mut other = room(&rooms, "b", "q");
    assert_eq!(other.take(51), Err(Full::Host));
    other.take(50).unwrap();
    // What no plugin is asked about counts for the box and the host.
    let mut report = rooms.room(Some(&name("c")), None);
    assert_eq!(report.take(26), Err(Full::Host));
    report.take(25).unwrap();
    drop((one, other, report));
    assert!(is_empty(&rooms));
}

#[test]
fn strangers_are_one_box_together() {
    let rooms = Rooms::new(LIMITS);
    let plugin = PluginName::parse("p").unwrap();
    let mut one = rooms.room(None, Some(&plugin));
    let mut two = rooms.room(None, Some(&plugin));
    one.take(60).unwrap();
    assert_eq!(two.take(41), Err(Full::Box));
    two.take(40).unwrap();
}

#[test]
fn it_is_given_back_with_the_last_of_the_bytes() {
    let rooms = Rooms::new(LIMITS);
    let mut one = room(&rooms, "a", "p");
    one.take(50).unwrap();
    let bytes = one.hold(Bytes::from_static(b"hello"));
    let part = bytes.slice(1..3);
    drop(bytes);
    assert_eq!((part.as_ref(), rooms.held().all), (&b"el"[..], 50));
    drop(part);
    assert!(is_empty(&rooms));
}

#[test]
fn it_grows_shrinks_and_takes_over() {
    let rooms = Rooms::new(LIMITS);
    let mut one = room(&rooms, "a", "p");
    one.resize(30).unwrap();
    let mut part = room(&rooms, "a", "p");
    part.take(20).unwrap();
    one.absorb(part);
    assert_eq!(rooms.held().all, 50);
    one.resize(10).unwrap();
    assert_eq!(rooms.held().all, 10);
    assert_eq!(one.resize(101), Err(Full::Box));
    assert_eq!(rooms.held().all, 10);
    drop(one);
    assert!(is_empty(&rooms));
}
