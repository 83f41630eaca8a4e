import pytest

from holdfast.core.redaction import redacted, unquoted


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:s3cret@there/shop",
        "postgresql://ann:s3@cret@there/shop",
        "postgresql://ann:x/s3cret@there/shop",
        "postgresql://ann:x?s3cret@there/shop",
        "postgresql://ann:a s3cret@there/shop",
        "postgresql://:s3cret@there/shop",
        "postgresql://ann:s3cret",
        "postgresql://ann:s3cret/shop",
        "mysql://ann:s3cret@there/shop?password=s3cret",
        "postgresql:/ann:x//b:s3cret@there/shop",
        "postgresql://there/shop?password=s3cret&user=ann",
        "postgresql://there/shop?sslpassword=s3cret",
        "host=there password=s3cret user=ann",
        "host=there PASSWORD = 's3cret with \\' blanks s3cret' user=ann",
    ],
)
def test_no_password_is_left(text):
    assert "s3cret" not in redacted(text)
    assert "s3cret" not in redacted(f'invalid URI: "{text}"')


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@there:5432/shop",
        "postgresql://there:5432,other:5433/shop",
        "postgresql://[::1]:5432/shop",
        "orders.db",
    ],
)
def test_what_has_no_password_stays(text):
    assert redacted(text) == text


def test_a_quoted_part_is_left_out():
    assert "s3cret" not in unquoted('invalid percent-encoded token: "s3cret%zz"')
