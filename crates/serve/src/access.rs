//! Access rules: which requests are answered.
//!
//! Any program on this machine can reach the server, and any web page can try to send requests to it. So the server
//! answers only requests that name it by its own name (which blocks DNS rebinding), and makes changes only for requests
//! that have the token and come from its own pages.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method};

/// Name of the cookie that holds the token.
pub(crate) const COOKIE_NAME: &str = "ssdlab_token";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Least length of a token, in characters: a token of this length cannot be guessed over a network.
pub const MIN_TOKEN_LENGTH: usize = 16;

/// Secret that permits changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Returns a random token of 128 bits.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the token that a user has chosen; `None` if it is too short, or has other characters than letters,
    /// digits, `-`, `_` and `.`.
    pub fn chosen(text: &str) -> Option<Token> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_good = text.len() >= MIN_TOKEN_LENGTH && text.bytes().all(is_plain);
        is_good.then(|| Token(text.to_owned()))
    }

    /// Returns the token as text, to show it to the user.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns true if `given` is the token, in a time that does not depend on where they differ.
    pub(crate) fn matches(&self, given: &str) -> bool {
        let pairs = self.0.bytes().zip(given.bytes());
        let difference = pairs.fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        self.0.len() == given.len() && difference == 0
    }
}

/// Rules by which requests are accepted.
#[derive(Clone, Debug)]
pub struct Access {
    /// Address on which the server listens.
    pub address: SocketAddr,
    /// Further host names by which the server is reached.
    pub names: Vec<String>,
    /// Secret that permits changes.
    pub token: Token,
    /// True if reading needs the token as well.
    pub reading_needs_token: bool,
}

/// Reason for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request names another host.
    Host,
    /// The request comes from a page of another site.
    Origin,
    /// The request lacks the token.
    Token,
}

impl Access {
    /// Returns `Ok` if a request may be answered, or the reason of its refusal. `is_public` is true for paths that
    /// need no token: the page on which the token is given, the style and the script.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        is_public: bool,
    ) -> Result<(), Refusal> {
        let host = self.host(headers).ok_or(Refusal::Host)?;
        let is_reading = matches!(*method, Method::GET | Method::HEAD);
        if !is_reading {
            self.check_origin(headers, &host)?;
        }
        let needs_token = (!is_reading || self.reading_needs_token) && !is_public;
        if needs_token && !self.is_trusted(headers) { Err(Refusal::Token) } else { Ok(()) }
    }

    /// Returns true if the request has the token, as a bearer token or a cookie.
    pub(crate) fn is_trusted(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|given| self.token.matches(given))
            || cookies(headers).any(|given| self.token.matches(given))
    }

    /// Returns the host that a request names, or `None` if it is not this server.
    fn host(&self, headers: &HeaderMap) -> Option<String> {
        let mut all = headers.get_all(HOST).iter();
        let host = all.next()?.to_str().ok()?.to_ascii_lowercase();
        (all.next().is_none() && self.is_own_host(&host)).then_some(host)
    }

    fn is_own_host(&self, host: &str) -> bool {
        let port = self.address.port();
        let (name, given) = match host.rsplit_once(':') {
            Some((name, digits)) if !host.ends_with(']') => (name, digits.parse().ok()),
            _ => (host, Some(80)),
        };
        // Clients that use such a name may come through a proxy, which has its own port.
        if self.names.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return given.is_some();
        }
        if given != Some(port) {
            return false;
        }
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let is_any = self.address.ip().is_unspecified();
        match address {
            // DNS can point another site's name at this address, but a literal address cannot be forged.
            Some(address) => is_any || address == self.address.ip() || self.is_local(address),
            None => name == "localhost" && (is_any || self.address.ip().is_loopback()),
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() && self.address.ip().is_loopback()
    }

    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
        let is_from = |site: &str| {
            let text = headers.get(FETCH_SITE).map(|value| value.to_str().unwrap_or("?"));
            text.is_none_or(|text| text == site)
        };
        if !is_from("same-origin") {
            return Err(Refusal::Origin);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let is_same = |origin: &str| {
            let named = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            named.is_some_and(|named| named.eq_ignore_ascii_case(host))
        };
        match (origins.next(), origins.next()) {
            (Some(only), None) if only.to_str().is_ok_and(is_same) => Ok(()),
            // Browsers always send Origin with changes. Other programs send a bearer token, which no browser adds by
            // itself.
            (None, None) if bearer(headers).is_some() => Ok(()),
            _ => Err(Refusal::Origin),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Returns all tokens among the cookies: browsers also send the cookies of other servers on this machine.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.trim() == COOKIE_NAME).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn access(address: &str) -> Access {
        let token = Token::chosen(TOKEN).unwrap();
        let address = address.parse().unwrap();
        Access { address, names: Vec::new(), token, reading_needs_token: false }
    }

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let pairs = lines
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn get(access: &Access, lines: &[(&str, &str)]) -> Result<(), Refusal> {
        access.check(&Method::GET, &headers(lines), false)
    }

    fn post(access: &Access, lines: &[(&str, &str)]) -> Result<(), Refusal> {
        access.check(&Method::POST, &headers(lines), false)
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let local = access("127.0.0.1:7373");
        let host = |host: &str| get(&local, &[("host", host)]);
        for own in ["127.0.0.1:7373", "localhost:7373", "LocalHost:7373", "[::1]:7373"] {
            assert_eq!(host(own), Ok(()), "{own}");
        }
        for other in [
            "evil.example:7373",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:7373",
            "127.0.0.1.evil.example:7373",
            "192.168.1.2:7373",
            "localhost:7373:7373",
            "localhost:7373@evil.example",
            "",
            ":7373",
        ] {
            assert_eq!(host(other), Err(Refusal::Host), "{other}");
        }
        assert_eq!(get(&local, &[]), Err(Refusal::Host));
        let two = [("host", "localhost:7373"), ("host", "evil.example")];
        assert_eq!(get(&local, &two), Err(Refusal::Host));
    }

    #[test]
    fn an_open_address_takes_any_address_and_no_name_but_its_own() {
        let mut open = access("0.0.0.0:80");
        open.reading_needs_token = true;
        let trusted = ("cookie", "ssdlab_token=0123456789abcdef");
        let host = |open: &Access, host: &str| get(open, &[("host", host), trusted]);
        assert_eq!(host(&open, "192.168.1.2"), Ok(()));
        assert_eq!(host(&open, "[fe80::1]:80"), Ok(()));
        assert_eq!(host(&open, "lab.example"), Err(Refusal::Host));
        open.names = vec!["lab.example".to_owned()];
        assert_eq!(host(&open, "lab.example"), Ok(()));
        assert_eq!(host(&open, "Lab.Example:8443"), Ok(()));
        assert_eq!(get(&open, &[("host", "lab.example")]), Err(Refusal::Token));
    }

    #[test]
    fn changes_take_the_token_and_come_from_its_own_pages() {
        let local = access("127.0.0.1:7373");
        let host = ("host", "localhost:7373");
        let own = ("origin", "http://localhost:7373");
        let cookie = ("cookie", "a=b; ssdlab_token=0123456789abcdef");
        let bearer = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(get(&local, &[host]), Ok(()));
        assert_eq!(post(&local, &[host, own, cookie]), Ok(()));
        assert_eq!(post(&local, &[host, ("origin", "https://localhost:7373"), cookie]), Ok(()));
        assert_eq!(post(&local, &[host, bearer]), Ok(()));
        assert_eq!(post(&local, &[host, own]), Err(Refusal::Token));
        assert_eq!(post(&local, &[host, cookie]), Err(Refusal::Origin));
        let wrong = ("cookie", "ssdlab_token=0123456789abcdeX");
        assert_eq!(post(&local, &[host, own, wrong]), Err(Refusal::Token));
        let short = ("cookie", "ssdlab_token=0123456789abcde");
        assert_eq!(post(&local, &[host, own, short]), Err(Refusal::Token));
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:7374",
            "http://localhost:7373.evil.example",
            "ftp://localhost:7373",
            "localhost:7373",
        ] {
            let lines = [host, ("origin", origin), cookie, bearer];
            assert_eq!(post(&local, &lines), Err(Refusal::Origin), "{origin}");
        }
        let two = [host, own, ("origin", "http://evil.example"), cookie];
        assert_eq!(post(&local, &two), Err(Refusal::Origin));
        for site in ["cross-site", "same-site", "none"] {
            let lines = [host, own, cookie, ("sec-fetch-site", site)];
            assert_eq!(post(&local, &lines), Err(Refusal::Origin), "{site}");
        }
        let named = [("host", "evil.example"), ("origin", "http://evil.example"), cookie];
        assert_eq!(post(&local, &named), Err(Refusal::Host));
        let lines = headers(&[host, own]);
        assert_eq!(local.check(&Method::DELETE, &lines, false), Err(Refusal::Token));
    }

    #[test]
    fn tokens_are_long_and_plain_and_never_the_same() {
        assert!(Token::chosen("0123456789abcde").is_none());
        assert!(Token::chosen("0123456789abcde;").is_none());
        let one = Token::random().unwrap();
        assert_eq!(Token::chosen(one.text()).unwrap(), one);
        assert_ne!(one, Token::random().unwrap());
        assert!(!format!("{one:?}").contains(one.text()));
    }
}
