//! The contract evolves by addition alone: what was released stays readable. `proto/README.md` states the rules.
//!
//! `UPDATE_BASELINE=1 cargo nextest run -p pointsman-proto --test evolution` takes the contract as it stands for the new
//! baseline.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{collections::BTreeMap, fs, path::PathBuf};

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
};

/// One fact that others rely on: where it is, and what it is.
type Facts = BTreeMap<String, String>;

/// What a change of the contract may look like.
type Change = fn(&mut FileDescriptorProto);

#[test]
fn the_contract_has_changed_by_addition_alone() {
    // Asked when it runs: checkouts may share what was built.
    let path =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../proto/baseline.binpb");
    let now = current();
    if std::env::var_os("UPDATE_BASELINE").is_some() {
        fs::write(&path, without_comments(now.clone()).encode_to_vec()).unwrap();
    }
    let baseline = FileDescriptorSet::decode(fs::read(&path).unwrap().as_slice()).unwrap();
    let broken = breaks(&facts(&baseline), &facts(&now), &reserved(&now));
    assert!(broken.is_empty(), "breaks readers of the released contract:\n{}", broken.join("\n"));
}

#[test]
fn everything_in_the_contract_has_a_comment() {
    let mut silent = Vec::new();
    for file in &current().file {
        let info = file.source_code_info.as_ref().expect("descriptors carry comments");
        let spoken: Vec<&[i32]> = info
            .location
            .iter()
            .filter(|location| !location.leading_comments().trim().is_empty())
            .map(|location| location.path.as_slice())
            .collect();
        for (name, path) in things(file) {
            if !spoken.contains(&path.as_slice()) {
                silent.push(format!("{}: {name}", file.name()));
            }
        }
    }
    assert!(silent.is_empty(), "without a comment:\n{}", silent.join("\n"));
}

#[test]
fn every_kind_of_break_is_found() {
    let changes: [(&str, Change); 10] = [
        ("field number", |file| field(file).number = Some(99)),
        ("field type", |file| field(file).r#type = Some(9)),
        ("field name", |file| field(file).name = Some("renamed".into())),
        ("field label", |file| field(file).label = Some(3)),
        ("field presence", |file| field(file).proto3_optional = Some(true)),
        ("message", |file| drop(file.message_type.remove(0))),
        ("enum value", |file| drop(enumeration(file).value.remove(1))),
        ("enum number", |file| enumeration(file).value[1].number = Some(77)),
        ("method", |file| drop(file.service[0].method.remove(0))),
        ("streaming", |file| method(file).server_streaming = Some(true)),
    ];
    let before = sample();
    for (kind, change) in changes {
        let mut after = before.clone();
        change(&mut after.file[0]);
        assert!(!breaks(&facts(&before), &facts(&after), &reserved(&after)).is_empty(), "{kind}");
    }
}

#[test]
fn additions_and_reserved_removals_are_no_breaks() {
    let before = sample();
    let mut after = before.clone();
    let message = &mut after.file[0].message_type[0];
    let gone = message.field.remove(0);
    message.reserved_name.push(gone.name().to_owned());
    let number = gone.number();
    let range = prost_types::descriptor_proto::ReservedRange { start: Some(number), end: Some(number + 1) };
    message.reserved_range.push(range);
    message.field.push(FieldDescriptorProto { name: Some("added".into()), number: Some(50), ..gone });
    assert_eq!(breaks(&facts(&before), &facts(&after), &reserved(&after)), [] as [String; 0]);
}

fn current() -> FileDescriptorSet {
    let mut set = FileDescriptorSet::decode(pointsman_proto::DESCRIPTORS).unwrap();
    set.file.retain(|file| file.package().starts_with("pointsman."));
    set
}

fn without_comments(mut set: FileDescriptorSet) -> FileDescriptorSet {
    set.file.iter_mut().for_each(|file| file.source_code_info = None);
    set
}

/// What stood before and is gone or differs, unless it is a field that was reserved.
fn breaks(before: &Facts, after: &Facts, reserved: &[String]) -> Vec<String> {
    let kept = |place: &String, fact: &String| after.get(place) == Some(fact) || reserved.contains(place);
    before
        .iter()
        .filter(|(place, fact)| !kept(place, fact))
        .map(|(place, fact)| match after.get(place) {
            Some(now) => format!("{place}: was {fact}, is {now}"),
            None => format!("{place}: was {fact}, is gone"),
        })
        .collect()
}

fn facts(set: &FileDescriptorSet) -> Facts {
    let mut facts = Facts::new();
    for file in &set.file {
        let package = file.package();
        file.message_type.iter().for_each(|message| message_facts(package, message, &mut facts));
        file.enum_type.iter().for_each(|value| enum_facts(package, value, &mut facts));
        for service in &file.service {
            for method in &service.method {
                let place = format!("{package}.{}/{}", service.name(), method.name());
                facts.insert(place, method_fact(method));
            }
        }
    }
    facts
}

fn message_facts(scope: &str, message: &DescriptorProto, facts: &mut Facts) {
    let name = format!("{scope}.{}", message.name());
    facts.insert(name.clone(), "a message".into());
    for field in &message.field {
        let oneof = field.oneof_index.and_then(|index| message.oneof_decl.get(index as usize));
        let fact = format!(
            "{} {:?} {:?} {} optional={} oneof={:?}",
            field.name(),
            field.label(),
            field.r#type(),
            field.type_name(),
            field.proto3_optional(),
            oneof.map(|oneof| oneof.name()),
        );
        facts.insert(format!("{name}#{}", field.number()), fact);
    }
    message.nested_type.iter().for_each(|nested| message_facts(&name, nested, facts));
    message.enum_type.iter().for_each(|nested| enum_facts(&name, nested, facts));
}

fn enum_facts(scope: &str, value: &EnumDescriptorProto, facts: &mut Facts) {
    for entry in &value.value {
        facts.insert(format!("{scope}.{}#{}", value.name(), entry.number()), entry.name().to_owned());
    }
}

fn method_fact(method: &MethodDescriptorProto) -> String {
    let stream = |streams: bool| if streams { "stream " } else { "" };
    format!(
        "{}{} -> {}{}",
        stream(method.client_streaming()),
        method.input_type(),
        stream(method.server_streaming()),
        method.output_type()
    )
}

/// Places of fields that are reserved by number and by name.
fn reserved(set: &FileDescriptorSet) -> Vec<String> {
    let mut places = Vec::new();
    for file in &set.file {
        for message in &file.message_type {
            if message.reserved_name.is_empty() {
                continue;
            }
            for number in message.reserved_range.iter().flat_map(|range| range.start()..range.end()) {
                places.push(format!("{}.{}#{number}", file.package(), message.name()));
            }
        }
    }
    places
}

/// Everything that needs a comment, with its path in the descriptor. Empty messages may be silent: their method speaks.
fn things(file: &FileDescriptorProto) -> Vec<(String, Vec<i32>)> {
    let mut found = Vec::new();
    for (m, message) in (0..).zip(&file.message_type) {
        message_things(message, &[4, m], &mut found);
    }
    for (e, value) in (0..).zip(&file.enum_type) {
        enum_things(value, &[5, e], &mut found);
    }
    for (s, service) in (0..).zip(&file.service) {
        found.push((service.name().to_owned(), vec![6, s]));
        for (m, method) in (0..).zip(&service.method) {
            found.push((format!("{}.{}", service.name(), method.name()), vec![6, s, 2, m]));
        }
    }
    found
}

fn message_things(message: &DescriptorProto, path: &[i32], found: &mut Vec<(String, Vec<i32>)>) {
    let name = message.name();
    let is_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
    if is_entry {
        return; // The map field speaks for it.
    }
    let by_method = name.ends_with("Request") || name.ends_with("Response");
    if !by_method {
        found.push((name.to_owned(), path.to_vec()));
    }
    for (f, field) in (0..).zip(&message.field) {
        found.push((format!("{name}.{}", field.name()), [path, &[2, f]].concat()));
    }
    for (n, nested) in (0..).zip(&message.nested_type) {
        message_things(nested, &[path, &[3, n]].concat(), found);
    }
    for (e, nested) in (0..).zip(&message.enum_type) {
        enum_things(nested, &[path, &[4, e]].concat(), found);
    }
}

fn enum_things(value: &EnumDescriptorProto, path: &[i32], found: &mut Vec<(String, Vec<i32>)>) {
    found.push((value.name().to_owned(), path.to_vec()));
    for (v, entry) in (0..).zip(&value.value) {
        found.push((format!("{}.{}", value.name(), entry.name()), [path, &[2, v]].concat()));
    }
}

/// A file with one of each thing.
fn sample() -> FileDescriptorSet {
    let mut file = current().file.into_iter().find(|file| file.name().ends_with("cluster.proto")).unwrap();
    // The first message gets a field to change.
    let with_fields = file.message_type.iter().position(|message| !message.field.is_empty()).unwrap();
    file.message_type.swap(0, with_fields);
    FileDescriptorSet { file: vec![file] }
}

fn field(file: &mut FileDescriptorProto) -> &mut FieldDescriptorProto {
    &mut file.message_type[0].field[0]
}

fn enumeration(file: &mut FileDescriptorProto) -> &mut EnumDescriptorProto {
    &mut file.enum_type[0]
}

fn method(file: &mut FileDescriptorProto) -> &mut MethodDescriptorProto {
    &mut file.service[0].method[0]
}
