-- Addresses (for IPv6 networks) from which the right password of an account came. Wrong passwords that come from elsewhere do not
-- keep these out.
CREATE TABLE sign_in_addresses (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    -- The last time, to within a day.
    used_us INTEGER NOT NULL,
    PRIMARY KEY (user_id, address)
) STRICT;
CREATE INDEX sign_in_addresses_used ON sign_in_addresses (used_us);
