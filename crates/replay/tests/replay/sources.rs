//! Files and folders.

use std::{fs, path::Path};

use pointsman_replay::Source;

fn names(folder: &Path, argument: &Path) -> Vec<String> {
    let strip = |source: Source| source.to_string().replace(&folder.display().to_string(), "");
    Source::of(argument).unwrap().into_iter().map(strip).collect()
}

#[test]
fn a_folder_is_its_scenarios_by_name_and_those_of_inner_folders() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("b/c")).unwrap();
    for file in ["z.yaml", "a.yml", "notes.md", "b/y.yaml", "b/c/x.yaml"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    assert_eq!(names(folder.path(), folder.path()), ["/a.yml", "/b/c/x.yaml", "/b/y.yaml", "/z.yaml"]);
    // A file that is named counts whatever it is called.
    assert_eq!(names(folder.path(), &folder.path().join("notes.md")), ["/notes.md"]);
    assert_eq!(Source::of(Path::new("-")).unwrap(), [Source::Stdin]);
}

#[test]
fn what_cannot_be_read_is_told_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let empty = Source::of(folder.path()).unwrap_err().to_string();
    assert!(empty.contains("no *.yaml"), "{empty}");
    let missing = folder.path().join("missing.yaml");
    let missing = Source::of(&missing).unwrap()[0].read().unwrap_err().to_string();
    assert!(missing.contains("missing.yaml") && missing.contains("cannot be read"), "{missing}");
    let binary = folder.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    assert!(Source::File(binary).read().unwrap_err().to_string().contains("UTF-8"));
    let huge = folder.path().join("huge.yaml");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    assert!(Source::File(huge).read().unwrap_err().to_string().contains("16 MiB"));
}
