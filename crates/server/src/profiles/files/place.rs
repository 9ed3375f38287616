//! Where profiles are: a folder, or the URL of an object store.

use std::{
    env, fmt, fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path as FilePath, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use anyhow::{anyhow, bail};
use object_store::{
    Error, ObjectStore, ObjectStoreScheme, RetryConfig, aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder, local::LocalFileSystem,
    prefix::PrefixStore,
};

use super::http::Connector;

/// Where profiles are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfilesPlace {
    Folder(PathBuf),
    /// `s3://bucket/prefix`, `gs://…`, `az://…`.
    Bucket {
        url: String,
        options: Options,
    },
}

/// Credentials, region and endpoint of a bucket, by the names of environment variables.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Options(pub Vec<(String, String)>);

/// Prefixes of the variables that [`Options`] have.
const VARIABLES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

impl Options {
    fn of_environment() -> Self {
        let all = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(all.filter(|(name, _)| VARIABLES.iter().any(|it| name.starts_with(it))).collect())
    }

    /// The options that a kind of store knows.
    fn known<T: FromStr>(&self) -> impl Iterator<Item = (T, &String)> {
        self.0.iter().filter_map(|(name, value)| Some((name.to_lowercase().parse().ok()?, value)))
    }
}

impl fmt::Debug for Options {
    /// Without values, which are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl ProfilesPlace {
    /// The folder of profiles in a server's folder.
    pub fn within(data: &FilePath) -> Self {
        Self::Folder(data.join(super::super::FOLDER))
    }

    /// Opens the store, and makes its folder.
    pub(super) fn open(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        let (url, options) = match self {
            Self::Folder(folder) => {
                let mut maker = fs::DirBuilder::new();
                let made = maker.recursive(true).mode(0o700).create(folder);
                made.map_err(|source| Error::Generic { store: "folder", source: source.into() })?;
                let store = LocalFileSystem::new_with_prefix(folder)?.with_automatic_cleanup(true);
                return Ok(Arc::new(store));
            }
            Self::Bucket { url, options } => (url, options),
        };
        let unusable = |error: String| Error::Generic { store: "store", source: error.into() };
        let parsed = axum::http::Uri::from_str(url).map_err(|error| unusable(error.to_string()))?;
        let prefix = object_store::path::Path::parse(parsed.path())?;
        // More attempts would hold up pages and pushes, and clients try again.
        let retry = RetryConfig {
            max_retries: 2,
            retry_timeout: Duration::from_secs(10),
            ..RetryConfig::default()
        };
        // The builders have the same methods, but no trait.
        macro_rules! bucket {
            ($builder:ident) => {{
                let configured = options
                    .known()
                    .fold($builder::new(), |builder, (key, value)| builder.with_config(key, value));
                let configured = configured.with_url(url).with_retry(retry);
                Arc::new(PrefixStore::new(
                    configured.with_http_connector(Connector).build()?,
                    prefix,
                ))
            }};
        }
        Ok(match scheme(url) {
            Some(ObjectStoreScheme::AmazonS3) => bucket!(AmazonS3Builder),
            Some(ObjectStoreScheme::GoogleCloudStorage) => bucket!(GoogleCloudStorageBuilder),
            _ => bucket!(MicrosoftAzureBuilder),
        })
    }
}

/// The kind of store at a URL, if it is supported.
fn scheme(url: &str) -> Option<ObjectStoreScheme> {
    Some(match url.split_once("://")?.0 {
        "s3" => ObjectStoreScheme::AmazonS3,
        "gs" => ObjectStoreScheme::GoogleCloudStorage,
        "az" => ObjectStoreScheme::MicrosoftAzure,
        _ => return None,
    })
}

impl FromStr for ProfilesPlace {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((kind, rest)) = text.split_once("://") else {
            if text.is_empty() {
                bail!("expected a folder, or a URL such as s3://bucket/prefix");
            }
            return Ok(Self::Folder(text.into()));
        };
        if scheme(text).is_none() || rest.is_empty() || rest.starts_with('/') || rest.contains('@')
        {
            return Err(anyhow!(
                "{kind}://… is no place for profiles: expected a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
                 az://CONTAINER/PREFIX, with the credentials in the environment"
            ));
        }
        let url = text.trim_end_matches('/').to_owned();
        Ok(Self::Bucket { url, options: Options::of_environment() })
    }
}

impl fmt::Display for ProfilesPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Bucket { url, .. } => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_folders_or_buckets() {
        let check = |text: &str, expected: Option<ProfilesPlace>| {
            assert_eq!(text.parse().ok(), expected, "{text}");
        };
        let options = Options::of_environment();
        let bucket = |url: &str| {
            Some(ProfilesPlace::Bucket { url: url.to_owned(), options: options.clone() })
        };
        check("/var/lib/profiles", Some(ProfilesPlace::Folder("/var/lib/profiles".into())));
        check("s3://bucket", bucket("s3://bucket"));
        check("s3://bucket/a/b/", bucket("s3://bucket/a/b"));
        check("gs://bucket/a", bucket("gs://bucket/a"));
        check("az://container", bucket("az://container"));
        check("", None);
        check("s3://", None);
        check("s3:///a", None);
        check("s3://key:secret@bucket", None);
        check("ftp://bucket", None);
    }
}
