"""Small models for tests."""

BPMN = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'
    ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
    ' xmlns:holdfast="urn:holdfast:bpmn"'
)


def model_of(body):
    """Return the bytes of a file."""
    return f"<definitions {BPMN}>{body}</definitions>".encode()


def process_of(body, id="p", more=""):
    """Return the bytes of a file with one executable process."""
    return model_of(f'{more}<process id="{id}" isExecutable="true">\n{body}\n</process>')


def flows(*pairs):
    """Return sequence flows, each given as "source target" or "source target condition"."""
    lines = []
    for number, pair in enumerate(pairs, 1):
        source, target, *condition = pair.split(" ", 2)
        text = ""
        if condition:
            escaped = condition[0].replace("&", "&amp;").replace("<", "&lt;")
            text = f"<conditionExpression>{escaped}</conditionExpression>"
        lines.append(
            f'<sequenceFlow id="f{number}" sourceRef="{source}" targetRef="{target}">{text}'
            "</sequenceFlow>"
        )
    return "\n".join(lines)


def boundary(id, host, trigger, interrupting=True, more=""):
    """Return a boundary event."""
    cancels = "true" if interrupting else "false"
    return (
        f'<boundaryEvent id="{id}" attachedToRef="{host}" cancelActivity="{cancels}">'
        f"{trigger}{more}</boundaryEvent>"
    )


def timer(kind, text):
    """Return a timer event definition."""
    return f"<timerEventDefinition><{kind}>{text}</{kind}></timerEventDefinition>"


def error(code):
    return f'<errorEventDefinition errorRef="{code}"/>'


def compensation(host, handler):
    """Return the compensation event of an activity, and the association to its handler."""
    return (
        f'<boundaryEvent id="undo-{host}" attachedToRef="{host}"><compensateEventDefinition/>'
        f'</boundaryEvent><association id="a-{host}" sourceRef="undo-{host}"'
        f' targetRef="{handler}"/>'
    )
