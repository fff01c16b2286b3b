//! How calls end.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use pointsman_channels::{ChannelSettings, Channels, Failure, failure};
use pointsman_ids::Incarnation;
use tokio::{net::TcpListener, time::timeout};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::net::{Net, Process, SETTINGS, call, channels, stream};

/// Far more than any of these may take.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_refused_connection_is_forgotten_as_soon_as_it_was_told() {
    let process = Process::start().await;
    let url = process.url();
    let address = process.kill().await;
    let channels = Channels::tcp(SETTINGS);
    for _ in 0..3 {
        let refused = call(&channels, &url).await.unwrap_err();
        assert_eq!(failure(&refused), Failure::Connect, "{refused:?}");
    }
    let _process = Process::start_at(address).await;
    call(&channels, &url).await.unwrap();
}

#[tokio::test]
async fn a_process_that_dies_breaks_its_calls_and_the_next_process_is_called_at_once() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    let mut open = stream(&channels, &url).await;
    let address = process.kill().await;
    let broken = timeout(SOON, open.message()).await.unwrap().unwrap_err();
    assert_eq!(failure(&broken), Failure::Broken, "{broken:?}");
    let refused = call(&channels, &url).await.unwrap_err();
    assert!(failure(&refused).is_transport(), "{refused:?}");
    let _process = Process::start_at(address).await;
    call(&channels, &url).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_found_out_by_the_calls_that_wait_and_by_those_that_come() {
    let process = Process::start().await;
    let net = Arc::new(Net::default());
    let (url, channels) = (process.url(), channels(&net));
    let mut open = stream(&channels, &url).await;
    net.freeze.store(true, Ordering::SeqCst);
    let both = async { tokio::join!(open.message(), call(&channels, &url)) };
    let (waiting, coming) = timeout(SOON, both).await.unwrap();
    assert_eq!(failure(&waiting.unwrap_err()), Failure::Broken);
    assert_eq!(failure(&coming.unwrap_err()), Failure::Broken);
    net.freeze.store(false, Ordering::SeqCst);
    call(&channels, &url).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_connections_and_never_answers_is_found_out() {
    // The kernel accepts for a stopped process.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let silent = timeout(SOON, call(&Channels::tcp(SETTINGS), &url)).await.unwrap().unwrap_err();
    assert_eq!(failure(&silent), Failure::Broken, "{silent:?}");
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_nothing_half_done_to_the_next() {
    let process = Process::start().await;
    let net = Arc::new(Net::default());
    let (url, channels) = (process.url(), channels(&net));
    net.hang_connects.store(true, Ordering::SeqCst);
    timeout(Duration::from_millis(20), call(&channels, &url)).await.unwrap_err();
    net.hang_connects.store(false, Ordering::SeqCst);
    // Whoever comes while the first connect hangs shares its end; afterwards nothing of it is left.
    let shared = call(&channels, &url).await.unwrap_err();
    assert_eq!(failure(&shared), Failure::Connect);
    assert_eq!(net.connects(), 1);
    call(&channels, &url).await.unwrap();
}

#[tokio::test]
async fn calls_that_wait_for_one_connection_fail_together_and_not_in_turn() {
    let net = Arc::new(Net::default());
    net.hang_connects.store(true, Ordering::SeqCst);
    let (url, channels) = ("http://127.0.0.1:1".parse().unwrap(), channels(&net));
    let start = Instant::now();
    for outcome in futures::future::join_all((0..50).map(|_| call(&channels, &url))).await {
        assert_eq!(failure(&outcome.unwrap_err()), Failure::Connect);
    }
    // In turn, they would take fifty times as long as one.
    assert!(start.elapsed() < SETTINGS.connect_timeout * 20, "{:?}", start.elapsed());
    assert_eq!(net.connects(), 1);
}

#[tokio::test]
async fn another_process_behind_an_address_ends_the_calls_to_the_former_one() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    channels.set_members([(url.clone(), Incarnation(1))]);
    let mut lost = channels.lost();
    let mut open = stream(&channels, &url).await;
    channels.set_members([(url.clone(), Incarnation(1))]);
    call(&channels, &url).await.unwrap();
    channels.set_members([(url.clone(), Incarnation(2))]);
    let closed = timeout(SOON, open.message()).await.unwrap().unwrap_err();
    assert_eq!(failure(&closed), Failure::Broken, "{closed:?}");
    call(&channels, &url).await.unwrap();
    assert!(lost.try_recv().is_err(), "what we close ourselves is not lost");
}

#[tokio::test]
async fn calls_to_a_node_that_left_are_answered_to_their_end() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    channels.set_members([(url.clone(), Incarnation(1))]);
    let mut open = stream(&channels, &url).await;
    channels.set_members([]);
    process.health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    assert!(timeout(SOON, open.message()).await.unwrap().unwrap().is_some());
}

#[tokio::test]
async fn connections_are_used_in_turn() {
    let process = Process::start().await;
    let net = Arc::new(Net::default());
    let channels = Channels::new(ChannelSettings { connections: 2, ..SETTINGS }, net.clone());
    for _ in 0..6 {
        call(&channels, &process.url()).await.unwrap();
    }
    assert_eq!(net.connects(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_drops_is_told() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    let mut lost = channels.lost();
    call(&channels, &url).await.unwrap();
    process.kill().await;
    assert_eq!(timeout(SOON, lost.recv()).await.unwrap().unwrap(), url);
}

#[tokio::test]
async fn a_boxed_channel_tells_the_same() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    let check = async || {
        let mut client = HealthClient::new(channels.channel(&url).boxed());
        client.check(HealthCheckRequest::default()).await
    };
    check().await.unwrap();
    let request = HealthCheckRequest { service: "nobody".into() };
    let answered = HealthClient::new(channels.channel(&url).boxed()).check(request).await.unwrap_err();
    assert_eq!(failure(&answered), Failure::Answer);
    process.kill().await;
    // The first call may still find the connection that has just died.
    for _ in 0..2 {
        let status = check().await.unwrap_err();
        assert!(failure(&status).is_transport(), "{status:?}");
    }
    assert_eq!(failure(&check().await.unwrap_err()), Failure::Connect);
}

#[tokio::test]
async fn calls_that_are_cancelled_in_a_burst_do_not_break_the_next_one() {
    let process = Process::start().await;
    let (url, channels) = (process.url(), Channels::tcp(SETTINGS));
    for _ in 0..10 {
        let burst = futures::future::join_all((0..300).map(|_| call(&channels, &url)));
        let _ = timeout(Duration::from_micros(500), burst).await;
        call(&channels, &url).await.unwrap();
    }
}

/// Blocks its thread on purpose: this is what a task that computes looks like from outside.
fn compute_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::black_box(start);
    }
}

#[tokio::test]
async fn a_caller_that_computes_for_long_does_not_take_its_peer_for_dead() {
    let process = Process::start().await;
    // The peer answers pings from threads of its own, which a busy machine may keep waiting.
    let settings = ChannelSettings { keep_alive_timeout: Duration::from_millis(500), ..SETTINGS };
    let channels = Channels::tcp(settings);
    let (url, mut lost) = (process.url(), channels.lost());
    let mut open = stream(&channels, &url).await;
    for _ in 0..8 {
        compute_for(settings.keep_alive_timeout * 2);
        tokio::task::yield_now().await;
    }
    process.health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    assert!(timeout(SOON, open.message()).await.unwrap().unwrap().is_some());
    assert!(lost.try_recv().is_err());
}
