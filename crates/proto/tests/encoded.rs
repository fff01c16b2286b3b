//! Answers that are encoded by hand are what the contract says.

use pointsman_proto::{
    broker::v1::{RouteResponse, RoutedGap, RoutedPart},
    encoded::{Encoded, Part},
    from_positions, positions,
};
use proptest::{collection::vec, option, prelude::*};
use prost::Message;

/// A part as a reader sees it that follows the contract to the letter.
#[derive(Clone, PartialEq, Message)]
struct ByContract {
    #[prost(fixed32, repeated, tag = "4")]
    segments: Vec<u32>,
    #[prost(fixed32, repeated, tag = "5")]
    optional_segments: Vec<u32>,
    #[prost(fixed32, repeated, tag = "6")]
    fail_open_segments: Vec<u32>,
}

fn part() -> impl Strategy<Value = RoutedPart> {
    let texts = ("[a-z]{1,9}/n[0-9]{1,3}", "[a-z:/]{0,200}", vec("s[0-9]{1,5}", 0..3));
    let lists = (vec(any::<u32>(), 0..99), vec(any::<u32>(), 0..9), vec(any::<u32>(), 0..9));
    (texts, option::of(any::<i32>()), lists).prop_map(|((node, url, names), pool, lists)| RoutedPart {
        node,
        url,
        pool,
        segments: from_positions(&lists.0),
        optional_segments: from_positions(&lists.1),
        fail_open_segments: from_positions(&lists.2),
        names,
    })
}

fn list(bytes: &[u8]) -> Vec<u32> {
    positions(bytes).collect()
}

proptest! {
    #[test]
    fn an_answer_reads_as_it_was_meant(parts in vec(part(), 0..5), request_id: u64) {
        let gap = RoutedGap { cause: "not_loaded".into(), segments: vec![1], names: vec![] };
        let rest = RouteResponse { request_id, unavailable: vec![gap], ..RouteResponse::default() };
        let lists: Vec<_> =
            parts.iter().map(|part| (list(&part.segments), list(&part.optional_segments))).collect();
        let encoded = parts.iter().zip(&lists).map(|(part, (segments, optional_segments))| Part {
            node: part.node.split_once('/').unwrap().into(),
            url: &part.url,
            pool: part.pool,
            segments,
            optional_segments,
            fail_open_segments: list(&part.fail_open_segments),
            names: part.names.iter().map(String::as_str).collect(),
        });
        let read = RouteResponse::decode(Encoded::route(&rest, encoded).as_bytes()).unwrap();
        prop_assert_eq!(read, RouteResponse { parts, ..rest });
    }

    #[test]
    fn lists_of_positions_are_packed_fixed32(part in part()) {
        let read = ByContract::decode(part.encode_to_vec().as_slice()).unwrap();
        prop_assert_eq!(&read.segments, &list(&part.segments));
        prop_assert_eq!(&read.optional_segments, &list(&part.optional_segments));
        prop_assert_eq!(&read.fail_open_segments, &list(&part.fail_open_segments));
        let again = RoutedPart::decode(read.encode_to_vec().as_slice()).unwrap();
        prop_assert_eq!(again.segments, part.segments);
    }
}
