//! The OpenAPI document, generated from the table of routes, so that it is complete.

use std::sync::LazyLock;

use axum::{
    handler::Handler,
    http::{Method, header},
    response::IntoResponse,
    routing::{self, MethodRouter},
};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        Components, Content, Info, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema,
        header::HeaderBuilder,
        path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, Paths},
        request_body::RequestBodyBuilder,
        schema::{Array, Object, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::{
    App,
    access::{Right, Route},
    error::ErrorBody,
};

/// A route with its description.
pub(super) struct Endpoint {
    pub(super) route: Route,
    operation: OperationBuilder,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Endpoint {
    pub(super) fn get<H, T>(path: &'static str, right: Right, handler: H, summary: &str) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::GET, path, right, routing::get(handler), summary)
    }

    pub(super) fn post<H, T>(path: &'static str, right: Right, handler: H, summary: &str) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::POST, path, right, routing::post(handler), summary)
    }

    pub(super) fn put<H, T>(path: &'static str, right: Right, handler: H, summary: &str) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::PUT, path, right, routing::put(handler), summary)
    }

    pub(super) fn patch<H, T>(path: &'static str, right: Right, handler: H, summary: &str) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::PATCH, path, right, routing::patch(handler), summary)
    }

    /// Its answer has no content.
    pub(super) fn delete<H, T>(path: &'static str, right: Right, handler: H, summary: &str) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let endpoint = Self::new(Method::DELETE, path, right, routing::delete(handler), summary);
        let response = ResponseBuilder::new().description("Done").build();
        Self { operation: endpoint.operation.response("204", response), ..endpoint }
    }

    fn new(
        method: Method,
        path: &'static str,
        right: Right,
        handler: MethodRouter<App>,
        summary: &str,
    ) -> Self {
        let parameters = names(path).map(|name| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(Object::with_type(Type::String)))
                .build()
        });
        let mut operation = OperationBuilder::new()
            .summary(Some(summary))
            .tag(tag(path))
            .operation_id(Some(operation_id(&method, path)))
            .parameters(Some(parameters));
        if right != Right::Open {
            let keyless = SecurityRequirement::default();
            let key = SecurityRequirement::new("key", Vec::<String>::new());
            operation = operation.securities(Some([key, keyless]));
        }
        let route = Route::api(method, path, right, handler);
        let mut endpoint = Self { route, operation, schemas: Vec::new() };
        let error = endpoint.content::<ErrorBody>();
        for status in ["4XX", "5XX"] {
            endpoint = endpoint.response(status, "The error, as a sentence", error.clone());
        }
        endpoint
    }

    pub(super) fn query<Q: IntoParams>(mut self) -> Self {
        for parameter in Q::into_params(|| Some(ParameterIn::Query)) {
            self.operation = self.operation.parameter(parameter);
        }
        self
    }

    pub(super) fn body<B: ToSchema>(mut self) -> Self {
        let content = self.content::<B>();
        let body = RequestBodyBuilder::new()
            .required(Some(Required::True))
            .content("application/json", content)
            .build();
        Self { operation: self.operation.request_body(Some(body)), ..self }
    }

    pub(super) fn answer<A: ToSchema>(mut self, status: u16, what: &str) -> Self {
        let content = self.content::<A>();
        self.response(&status.to_string(), what, content)
    }

    /// A page of a list.
    pub(super) fn answer_list<A: ToSchema>(mut self, what: &str) -> Self {
        self.content::<A>();
        let list = Array::new(Ref::from_schema_name(A::name()));
        let count = HeaderBuilder::new()
            .schema(Some(Object::with_type(Type::Integer)))
            .description(Some("Number of entries on all pages"))
            .build();
        let response = ResponseBuilder::new()
            .description(what)
            .content("application/json", Content::new(Some(RefOr::T(Schema::Array(list)))))
            .header("X-Total-Count", count)
            .build();
        Self { operation: self.operation.response("200", response), ..self }
    }

    /// A response without a further description.
    pub(super) fn answer_as(self, media_type: &str, schema: Type, what: &str) -> Self {
        let content = Content::new(Some(Object::with_type(schema)));
        let response =
            ResponseBuilder::new().description(what).content(media_type, content).build();
        Self { operation: self.operation.response("200", response), ..self }
    }

    fn response(self, status: &str, what: &str, content: Content) -> Self {
        let response =
            ResponseBuilder::new().description(what).content("application/json", content).build();
        Self { operation: self.operation.response(status, response), ..self }
    }

    fn content<T: ToSchema>(&mut self) -> Content {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        Content::new(Some(Ref::from_schema_name(T::name())))
    }
}

/// `GET /v0/server/spec`
pub(super) async fn spec() -> impl IntoResponse {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let document = document(super::endpoints());
        document.to_json().unwrap_or_default()
    });
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// The document about these endpoints.
pub(super) fn document(endpoints: Vec<Endpoint>) -> OpenApi {
    let mut paths = Paths::new();
    let mut components = Components::new();
    for endpoint in endpoints {
        let Endpoint { route, operation, schemas } = endpoint;
        let item = PathItem::new(method(&route.method), operation.build());
        match paths.paths.get_mut(route.path) {
            Some(known) => known.merge_operations(item),
            None => {
                paths.paths.insert(route.path.to_owned(), item);
            }
        }
        components.schemas.extend(schemas);
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.security_schemes.insert("key".to_owned(), SecurityScheme::Http(bearer).into());
    let info = Info::new("wingbeat", env!("CARGO_PKG_VERSION"));
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components);
    document
}

fn method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// The parameter names in braces.
fn names(path: &'static str) -> impl Iterator<Item = &'static str> {
    let name = |part: &'static str| part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    path.split('/').filter_map(name)
}

/// OpenAPI tag of an address: its last part that is not a parameter.
fn tag(path: &'static str) -> &'static str {
    let fixed = path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{'));
    fixed.skip(1).take(2).last().unwrap_or("server")
}

fn operation_id(method: &Method, path: &str) -> String {
    let parts = path.split(['/', '{', '}', '.']).filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.collect();
    format!("{}_{}", method.as_str().to_lowercase(), parts.join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_document() {
        let document = document(super::super::endpoints());
        for route in super::super::routes() {
            let operation = document.paths.get_path_operation(route.path, method(&route.method));
            let operation = operation.unwrap_or_else(|| panic!("{} {}", route.method, route.path));
            let summary = operation.summary.as_deref().expect("a summary");
            let statuses: Vec<_> = operation.responses.responses.keys().collect();
            let succeeds = statuses.iter().any(|status| status.starts_with('2'));
            let is_refused = summary.starts_with("Refused");
            assert_eq!(succeeds, !is_refused, "{} {}: {statuses:?}", route.method, route.path);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(super::super::endpoints());
        let known = document.components.as_ref().expect("components").schemas.clone();
        let text = document.to_json().expect("JSON");
        for (at, prefix) in text.match_indices("#/components/schemas/") {
            let rest = &text[at + prefix.len()..];
            let name = rest.split('"').next().expect("a name");
            assert!(known.contains_key(name), "{name}");
        }
        assert!(known.len() > 20);
    }
}
