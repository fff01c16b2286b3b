//! Errors on the wire: one common message in the details of a gRPC status.

use pointsman_ids::{Error, ErrorClass, ErrorCode};
use prost::Message;
use tonic::{Code, Status};

use crate::common::v1 as pb;

/// The status that carries `error`.
pub fn status(error: &Error) -> Status {
    let details = error_to_proto(error).encode_to_vec();
    Status::with_details(grpc_code(error.code()), error.message(), details.into())
}

/// The status that carries an error as its sender means it, whatever the table says of its code.
pub fn status_of(error: pb::Error) -> Status {
    let code = grpc_code(ErrorCode::from_number(error.code));
    Status::with_details(code, error.message.clone(), error.encode_to_vec().into())
}

/// Our error in the details of a status, as its sender meant it; `None`: there is none, so the status came from elsewhere.
pub fn details(status: &Status) -> Option<pb::Error> {
    pb::Error::decode(status.details()).ok().filter(|details| details.code != 0)
}

/// The error that a status carries. A status without details, which our servers never send, came from the
/// transport: unreachable and broken connections read as `node_not_available`, the rest by its gRPC code.
pub fn error(status: &Status) -> Error {
    if let Some(details) = details(status) {
        return error_from_proto(details);
    }
    let code = match status.code() {
        Code::Unavailable => ErrorCode::NodeNotAvailable,
        Code::DeadlineExceeded => ErrorCode::DeadlineExceeded,
        Code::Cancelled => ErrorCode::Cancelled,
        Code::Unimplemented => ErrorCode::NotImplemented,
        Code::InvalidArgument => ErrorCode::ParameterInvalid,
        Code::OutOfRange => ErrorCode::ParameterTooLarge,
        Code::ResourceExhausted => ErrorCode::ServiceTooManyRequests,
        _ => ErrorCode::Unknown,
    };
    Error::new(code, status.message())
}

/// The message that carries `error`.
pub fn error_to_proto(error: &Error) -> pb::Error {
    let class = match error.code().class() {
        ErrorClass::Input => pb::ErrorClass::Input,
        ErrorClass::System => pb::ErrorClass::System,
    };
    pb::Error {
        code: error.code().number(),
        name: error.code().name().to_owned(),
        class: class.into(),
        retriable: error.is_retriable(),
        message: error.message().to_owned(),
        retry_after_ms: 0,
    }
}

/// The error that a message carries. A code that this version does not know becomes `unknown`, with its name kept
/// in the text.
pub fn error_from_proto(error: pb::Error) -> Error {
    let code = ErrorCode::from_number(error.code);
    if code == ErrorCode::Unknown && error.code != code.number() {
        return Error::new(code, format!("{} ({}): {}", error.name, error.code, error.message));
    }
    Error::new(code, error.message)
}

/// A hint for generic clients. Ours decide by the details.
fn grpc_code(code: ErrorCode) -> Code {
    use ErrorCode as E;
    match code {
        E::ServiceTooManyRequests => Code::ResourceExhausted,
        E::CollectionNotFound
        | E::PartitionNotFound
        | E::ResourceGroupNotFound
        | E::ReplicaNotFound
        | E::SegmentNotFound
        | E::NodeNotFound => Code::NotFound,
        E::ResourceGroupAlreadyExists => Code::AlreadyExists,
        E::NotImplemented => Code::Unimplemented,
        E::Cancelled => Code::Cancelled,
        E::DeadlineExceeded => Code::DeadlineExceeded,
        E::Unknown | E::ServiceInternal => Code::Internal,
        _ if code.class() == ErrorClass::Input => Code::InvalidArgument,
        _ if code.is_retriable() => Code::Unavailable,
        _ => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire() {
        for code in ErrorCode::ALL {
            let sent = Error::new(*code, "about 'x'");
            assert_eq!(error(&status(&sent)), sent);
        }
    }

    #[test]
    fn a_newer_peers_code_keeps_its_name() {
        let read = error_from_proto(pb::Error {
            code: 4711,
            name: "from_the_future".into(),
            message: "hm".into(),
            ..Default::default()
        });
        assert_eq!(read, Error::new(ErrorCode::Unknown, "from_the_future (4711): hm"));
    }

    #[test]
    fn a_transport_error_is_told_from_ours() {
        assert_eq!(error(&Status::unavailable("tcp")).code(), ErrorCode::NodeNotAvailable);
        assert_eq!(error(&Status::unknown("h2")).code(), ErrorCode::Unknown);
    }
}
