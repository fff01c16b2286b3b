//! Counts requests on an HTTP/2 connection by the bytes that its client sends.

/// What a client says before its first frame.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Length (3 bytes), type, flags, stream (4 bytes).
const HEADER: usize = 9;

/// Type of the frame that begins a request.
const HEADERS: u8 = 1;

/// Reads frames as they pass, however they are cut.
#[derive(Debug)]
pub(crate) struct RequestCounter {
    /// Bytes that are of no interest: the rest of the preface or of a frame.
    skip: usize,
    header: Vec<u8>,
    /// The newest stream: trailers of a request come in a frame of the same type.
    stream: u32,
}

impl RequestCounter {
    /// At the beginning of a connection.
    pub(crate) fn new() -> Self {
        Self { skip: PREFACE, header: Vec::with_capacity(HEADER), stream: 0 }
    }

    /// Requests that begin in these bytes.
    pub(crate) fn count(&mut self, bytes: &[u8]) -> usize {
        let mut requests = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = self.skip.min(rest.len());
            self.skip -= skipped;
            rest = &rest[skipped..];
            let taken = rest.len().min(HEADER - self.header.len());
            self.header.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if let [l0, l1, l2, kind, _flags, s0, s1, s2, s3] = *self.header {
                self.header.clear();
                self.skip = u32::from_be_bytes([0, l0, l1, l2]) as usize;
                // The upper bit is reserved.
                let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
                if kind == HEADERS && stream > self.stream {
                    self.stream = stream;
                    requests += 1;
                }
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a payload of zeros.
    fn frame(kind: u8, stream: u32, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0];
        frame.extend(stream.to_be_bytes());
        frame.extend(vec![0; usize::from(length)]);
        frame
    }

    #[test]
    fn requests_count_and_pings_do_not_however_the_bytes_are_cut() {
        const SETTINGS: u8 = 4;
        const PING: u8 = 6;
        const DATA: u8 = 0;
        let mut bytes = vec![b'x'; PREFACE];
        for (kind, stream, length) in [
            (SETTINGS, 0, 0),
            (HEADERS, 1, 30),
            (DATA, 1, 200),
            (PING, 0, 8),
            (HEADERS, 3, 0),
            (HEADERS, 3, 5),
        ] {
            bytes.extend(frame(kind, stream, length));
        }
        for cut in [1, 2, 7, 33, bytes.len()] {
            let mut counter = RequestCounter::new();
            let counted: usize = bytes.chunks(cut).map(|part| counter.count(part)).sum();
            assert_eq!(counted, 2, "in pieces of {cut}");
        }
    }
}
