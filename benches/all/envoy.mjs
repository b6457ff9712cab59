// Envoy's configuration for the comparison, as JSON, without an admin interface: the same token
// checks as the gateway, with Envoy's cache of verified tokens, and TLS in front of the same
// application. Listeners without a port are left out.

const typed = (name, fields) => ({ "@type": `type.googleapis.com/${name}`, ...fields });
const at = (port) => ({ socket_address: { address: "127.0.0.1", port_value: port } });

export function envoy({ gatePort, tlsPort, gateTlsPort, upstream, issuer, jwks, certificate, key, tokens }) {
  const chain = (filters) => ({
    filters: [
      {
        name: "envoy.filters.network.http_connection_manager",
        typed_config: typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", {
          stat_prefix: "http",
          codec_type: "AUTO",
          route_config: { virtual_hosts: [{ name: "all", domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: "application" } }] }] },
          http_filters: [...filters, { name: "envoy.filters.http.router", typed_config: typed("envoy.extensions.filters.http.router.v3.Router") }],
        }),
      },
    ],
  });
  const jwt = {
    name: "envoy.filters.http.jwt_authn",
    typed_config: typed("envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication", {
      providers: {
        sealgate: {
          issuer,
          audiences: [issuer],
          local_jwks: { inline_string: JSON.stringify(jwks) },
          claim_to_headers: [{ header_name: "x-forwarded-user", claim_name: "sub" }],
          jwt_cache_config: { jwt_cache_size: 2 * tokens },
        },
      },
      rules: [{ match: { prefix: "/" }, requires: { provider_name: "sealgate" } }],
    }),
  };
  const transport_socket = {
    name: "envoy.transport_sockets.tls",
    typed_config: typed("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", {
      common_tls_context: {
        alpn_protocols: ["h2", "http/1.1"],
        tls_certificates: [{ certificate_chain: { filename: certificate }, private_key: { filename: key } }],
        tls_params: { tls_minimum_protocol_version: "TLSv1_2", tls_maximum_protocol_version: "TLSv1_3" },
      },
    }),
  };
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: at(upstream) } }] }];
  return {
    static_resources: {
      listeners: [
        gatePort && { name: "gate", address: at(gatePort), filter_chains: [chain([jwt])] },
        tlsPort && { name: "tls", address: at(tlsPort), filter_chains: [{ ...chain([]), transport_socket }] },
        gateTlsPort && { name: "gate-tls", address: at(gateTlsPort), filter_chains: [{ ...chain([jwt]), transport_socket }] },
      ].filter(Boolean),
      clusters: [{ name: "application", type: "STATIC", load_assignment: { cluster_name: "application", endpoints } }],
    },
  };
}
