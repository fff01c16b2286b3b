//! Columns of files and of collections, and whether they agree.

use arrow::datatypes::{DataType, Field, Schema};
use pointsman_ids::{Result, catalog::Column};

use super::invalid;
use crate::values::read_as;

/// The columns of a schema, with the types that it says; only vectors have one form, whatever their components are called.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    let data_type = |field: &Field| match field.data_type() {
        list @ DataType::FixedSizeList(..) => read_as(list.clone()).to_string(),
        other => other.to_string(),
    };
    let column = |field: &std::sync::Arc<Field>| Column {
        name: field.name().clone(),
        data_type: data_type(field),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}

/// The schema of columns.
pub(super) fn schema(columns: &[Column]) -> Result<Schema> {
    let field = |column: &Column| Ok(Field::new(&column.name, data_type(column)?, column.nullable));
    Ok(Schema::new(columns.iter().map(field).collect::<Result<Vec<_>>>()?))
}

pub(super) fn data_type(column: &Column) -> Result<DataType> {
    let parsed = column.data_type.parse::<DataType>();
    parsed.map_err(|error| invalid(format!("column '{}': type '{}'", column.name, column.data_type), error))
}

/// Checks that a file with the columns `got` can be a segment of a collection with the columns `wanted`. Order does
/// not matter, nor does how text and bytes are laid out (`Utf8`, `LargeUtf8` and `Utf8View` are read alike).
///
/// # Errors
/// `parameter_invalid` that names the first column that does not fit, what was wanted and what the file has.
pub fn check_columns(wanted: &[Column], got: &[Column]) -> Result<()> {
    for column in wanted.iter().chain(got) {
        check_type(&column.name, &data_type(column)?)?;
    }
    for column in wanted {
        let wish = show(column);
        let Some(own) = got.iter().find(|own| own.name == column.name) else {
            return Err(invalid(
                format!("column '{}'", column.name),
                format!("wanted {wish}, the file has none"),
            ));
        };
        let types_agree = read_as(data_type(column)?) == read_as(data_type(own)?);
        let may_lack_values = own.nullable && !column.nullable;
        if !types_agree || may_lack_values {
            let mut message = format!("wanted {wish}, the file has {}", show(own));
            if types_agree {
                message.push_str(
                    ", by which it may hold nulls: write the column as required (pyarrow: nullable=False), or have one \
                     without 'not null' in the collection",
                );
            }
            return Err(invalid(format!("column '{}'", column.name), message));
        }
    }
    match got.iter().find(|own| wanted.iter().all(|column| column.name != own.name)) {
        Some(more) => Err(invalid(
            format!("column '{}'", more.name),
            format!("wanted none of that name, the file has {}", show(more)),
        )),
        None => Ok(()),
    }
}

/// Refuses a type that has no values: whatever comes later would be lost.
pub(super) fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    if holds_nothing(data_type) {
        let why = format!("type {data_type} holds no values; give the column a type that does, such as Utf8");
        return Err(invalid(format!("column '{name}'"), why));
    }
    Ok(())
}

fn holds_nothing(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds_nothing(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_nothing(field.data_type())),
        DataType::Dictionary(_, inner) => holds_nothing(inner),
        _ => false,
    }
}

fn show(column: &Column) -> String {
    format!("{}{}", column.data_type, if column.nullable { "" } else { " not null" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, data_type: &str, nullable: bool) -> Column {
        Column { name: name.into(), data_type: data_type.into(), nullable }
    }

    #[test]
    fn layouts_of_text_and_order_do_not_matter() {
        let wanted = [column("a", "Utf8", true), column("b", "Int64", true)];
        let got = [column("b", "Int64", false), column("a", "LargeUtf8", true)];
        check_columns(&wanted, &got).expect("they agree");
    }

    #[test]
    fn vectors_are_alike_whatever_their_components_are_called() {
        let wanted = [column("v", "FixedSizeList(4 x Float32)", true)];
        for own in ["FixedSizeList(4 x non-null Float32)", "FixedSizeList(4 x Float32, field: 'element')"] {
            check_columns(&wanted, &[column("v", own, true)]).expect("they agree");
            let named = Schema::new(vec![Field::new("v", own.parse().expect("a type"), true)]);
            assert_eq!(columns(&named), wanted);
        }
        for other in ["FixedSizeList(5 x Float32)", "FixedSizeList(4 x Float64)"] {
            check_columns(&wanted, &[column("v", other, true)]).expect_err("they do not");
        }
    }

    #[test]
    fn a_column_that_can_hold_nothing_is_refused() {
        let (nothing, text) = ([column("a", "Null", true)], [column("a", "Utf8", true)]);
        for (wanted, got) in [(&nothing, &nothing), (&nothing, &text), (&text, &nothing)] {
            let refused = check_columns(wanted, got).expect_err("no values");
            assert!(refused.message().starts_with("column 'a': type Null holds no values"), "{refused}");
        }
    }

    #[test]
    fn a_mismatch_names_column_wanted_and_got() {
        let wanted = [column("a", "Int64", false)];
        let refused =
            |got: &[Column]| check_columns(&wanted, got).expect_err("must be refused").message().to_owned();
        assert_eq!(
            refused(&[column("a", "Utf8", false)]),
            "column 'a': wanted Int64 not null, the file has Utf8 not null"
        );
        assert_eq!(
            refused(&[column("a", "Int64", true)]),
            "column 'a': wanted Int64 not null, the file has Int64, by which it may hold nulls: write the column as \
             required (pyarrow: nullable=False), or have one without 'not null' in the collection"
        );
        assert_eq!(refused(&[]), "column 'a': wanted Int64 not null, the file has none");
        let more = [column("a", "Int64", false), column("b", "Int64", true)];
        assert_eq!(refused(&more), "column 'b': wanted none of that name, the file has Int64");
    }
}
