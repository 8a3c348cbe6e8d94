"""HTTP: routes, authentication, middleware, sockets."""
