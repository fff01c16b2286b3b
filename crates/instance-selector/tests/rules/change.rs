//! Changes by edits.

use pointsman_ids::{ErrorCode, catalog::SelectorKind};
use pointsman_instance_selector::{Edit, States};

use crate::world::{World, seconds};

fn all(world: &World, states: &States) -> Vec<String> {
    (0..states.len()).map(|at| world.candidates(states, u32::try_from(at).unwrap())).collect()
}

#[test]
fn edits_apply_in_order_and_leave_the_former_states_alone() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(SelectorKind::Balanced, &["n1", "n2", "n3"]);
    let pieces = [world.piece("n1 n2"), world.piece("n2 n3"), world.piece("n3 n1")];
    let [a, b, c] = pieces.each_ref().map(|piece| piece.input());
    let edits = [
        Edit::Remove { at: 0 },
        Edit::Insert { at: 0, segment: a },
        Edit::Set { at: 2, segment: b },
        Edit::Insert { at: 3, segment: c },
    ];
    let changed = states.change(&world.nodes(), edits, seconds(1)).unwrap();
    assert_eq!(all(&world, &changed), ["n1 n2", "n2", "n2 n3", "n1 n3"]);
    assert_eq!(all(&world, &states), ["n1", "n2", "n3"]);
}

#[test]
fn an_edit_beyond_the_end_is_refused() {
    let mut world = World::of("n1");
    let states = world.states(SelectorKind::Balanced, &["n1"]);
    let piece = world.piece("n1");
    let segment = piece.input();
    for edit in [Edit::Remove { at: 1 }, Edit::Set { at: 1, segment }, Edit::Insert { at: 2, segment }] {
        let error = states.change(&world.nodes(), [edit], seconds(1)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceInternal);
        assert!(error.to_string().contains("'t'"), "{error}");
    }
}
