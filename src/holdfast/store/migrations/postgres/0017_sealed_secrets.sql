-- The secret of a signing key may be sealed, and a sealed value begins with a zero byte. A secret in clear that begins with one is
-- marked as a value that is stored as it is, so that it is not taken for a sealed one.

UPDATE holdfast.key SET secret = decode('000070', 'hex') || secret WHERE substring(secret FROM 1 FOR 1) = decode('00', 'hex');
