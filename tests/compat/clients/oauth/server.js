// A real identity provider for tests. Its words are JSON on standard input: the clients, and the
// lifetime of tokens in seconds. It answers with a line of JSON: where it is.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const asked = JSON.parse(Buffer.concat(chunks).toString());

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: 'real', use: 'sig', alg: 'RS256' };

const server = createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: asked.clients.map((client) => ({
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    ...client,
  })),
  jwks: { keys: [key] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:kafka',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'read write',
        audience: 'kafka',
        accessTokenTTL: asked.lifetimeSeconds,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
server.on('request', provider.callback());
console.log(JSON.stringify({ issuer, keys: `${issuer}/jwks`, token: `${issuer}/token` }));
