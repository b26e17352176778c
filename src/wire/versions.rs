//! What a broker speaks: request versions and finalized features, from its ApiVersions reply (KIP-35, KIP-584).

use std::collections::HashMap;

use kafka_protocol::messages::ApiVersionsResponse;

use crate::wire::call::Api;
use crate::wire::error::{Place, WireError};

/// The broker's ranges of versions per request, and the features its cluster has agreed on.
#[derive(Debug, Default, Clone)]
pub struct Versions {
    ranges: HashMap<i16, (i16, i16)>,
    features: HashMap<String, i16>,
}

impl Versions {
    /// Reads an ApiVersions reply.
    pub fn new(reply: &ApiVersionsResponse) -> Self {
        let ranges = reply.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        let features = reply.finalized_features.iter().map(|f| (f.name.to_string(), f.max_version_level)).collect();
        Self { ranges, features }
    }

    /// The highest version that both sides speak.
    pub fn agree(&self, api: Api) -> Option<i16> {
        let (min, max) = self.ranges.get(&api.key)?;
        let version = api.max.min(*max);
        (version >= api.min && version >= *min).then_some(version)
    }

    /// The same; the error says what to do where there is none.
    pub fn require(&self, api: Api, place: &Place) -> Result<i16, WireError> {
        self.agree(api).ok_or_else(|| WireError::Unsupported {
            place: place.clone(),
            api: api.name,
            ours: format!("{}-{}", api.min, api.max),
            theirs: self.offered(api),
            remedy: "see the table of supported brokers in OPERATIONS.md".to_owned(),
        })
    }

    /// The broker's versions of a request, for messages.
    fn offered(&self, api: Api) -> String {
        self.ranges.get(&api.key).map_or("none".to_owned(), |(min, max)| format!("{min}-{max}"))
    }

    /// Level of a finalized feature; 0 where the cluster lacks it.
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::api_versions_response::ApiVersion;

    #[test]
    fn the_highest_common_version_is_agreed_on() {
        let offered = ApiVersion::default().with_api_key(78).with_min_version(1).with_max_version(2);
        let versions = Versions::new(&ApiVersionsResponse::default().with_api_keys(vec![offered]));
        let api = |min, max| Api { key: 78, name: "ShareFetch", min, max };
        assert_eq!(versions.agree(api(1, 1)), Some(1));
        assert_eq!(versions.agree(api(2, 5)), Some(2));
        assert_eq!(versions.agree(api(3, 5)), None);
        assert_eq!(versions.agree(Api { key: 79, name: "ShareAcknowledge", min: 2, max: 2 }), None);
    }
}
