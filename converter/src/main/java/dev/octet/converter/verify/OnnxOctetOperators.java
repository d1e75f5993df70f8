package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;

/** Octet's own operators in a finished model. */
final class OnnxOctetOperators extends GraphRule {
    OnnxOctetOperators() {
        super(
                "onnx-octet-operators",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "A model for a runtime has standard operators only.",
                "write it with octet quantize --target",
                "onnx/onnx:docs/IR.md");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.nodes().stream()
                .filter(n -> n.domain().equals(Node.OCTET_DOMAIN))
                .forEach(n -> findings.add(this, "a node is of Octet's own operators", n.id(), n.opType()));
    }
}
