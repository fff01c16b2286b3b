//! Collections and segments.

mod collections;
mod differs;
mod options;
mod replace;
mod roles;
mod segments;

use std::sync::Arc;

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::{CollectionStore, Stores};
use tonic::{Request, Response, Status};

use crate::shared::Shared;

/// Serves the catalog.
#[derive(Debug)]
pub(crate) struct CatalogService(pub(crate) Arc<Shared>);

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(result: Result<T, Error>) -> Answer<T> {
    result.map(Response::new).map_err(|error| status(&error))
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterInvalid, text)
}

/// A collection that must exist.
pub(crate) fn find<'a>(stores: &'a Stores, name: &str) -> Result<&'a CollectionStore, Error> {
    stores.collection(name).ok_or_else(|| {
        Error::new(ErrorCode::CollectionNotFound, format!("there is no collection '{}'", name.escape_debug()))
    })
}

#[tonic::async_trait]
impl pb::catalog_server::Catalog for CatalogService {
    async fn create_collection(
        &self,
        request: Request<pb::CreateCollectionRequest>,
    ) -> Answer<pb::CreateCollectionResponse> {
        let call = async { self.0.active()?.create_collection(request.into_inner()).await };
        answer(call.await)
    }

    async fn get_collection(
        &self,
        request: Request<pb::GetCollectionRequest>,
    ) -> Answer<pb::GetCollectionResponse> {
        let get = || {
            let tenure = self.0.active()?;
            let state = tenure.state();
            let store = find(&state.stores, &request.get_ref().name)?;
            Ok(pb::GetCollectionResponse { collection: Some(collections::message(store)) })
        };
        answer(get())
    }

    async fn list_collections(
        &self,
        _: Request<pb::ListCollectionsRequest>,
    ) -> Answer<pb::ListCollectionsResponse> {
        let list = || {
            let tenure = self.0.active()?;
            let state = tenure.state();
            let stores = state.stores.names.values().filter_map(|id| state.stores.collections.get(id));
            Ok(pb::ListCollectionsResponse { collections: stores.map(collections::message).collect() })
        };
        answer(list())
    }

    async fn alter_collection(
        &self,
        request: Request<pb::AlterCollectionRequest>,
    ) -> Answer<pb::AlterCollectionResponse> {
        let call = async { self.0.active()?.alter_collection(request.into_inner()).await };
        answer(call.await)
    }

    async fn drop_collection(
        &self,
        request: Request<pb::DropCollectionRequest>,
    ) -> Answer<pb::DropCollectionResponse> {
        let call = async { self.0.active()?.drop_collection(&request.get_ref().name).await };
        answer(call.await)
    }

    async fn push_segments(
        &self,
        request: Request<pb::PushSegmentsRequest>,
    ) -> Answer<pb::PushSegmentsResponse> {
        let call = async { self.0.active()?.push_segments(request.into_inner()).await };
        answer(call.await)
    }

    async fn list_segments(
        &self,
        request: Request<pb::ListSegmentsRequest>,
    ) -> Answer<pb::ListSegmentsResponse> {
        let list = || {
            let tenure = self.0.active()?;
            let state = tenure.state();
            let store = find(&state.stores, &request.get_ref().collection)?;
            Ok(segments::page(store, request.get_ref()))
        };
        answer(list())
    }

    async fn drop_segments(
        &self,
        request: Request<pb::DropSegmentsRequest>,
    ) -> Answer<pb::DropSegmentsResponse> {
        let call = async { self.0.active()?.drop_segments(request.get_ref()).await };
        answer(call.await)
    }

    async fn replace_segments(
        &self,
        request: Request<pb::ReplaceSegmentsRequest>,
    ) -> Answer<pb::ReplaceSegmentsResponse> {
        let call = async { self.0.active()?.replace_segments(request.into_inner()).await };
        answer(call.await)
    }
}
