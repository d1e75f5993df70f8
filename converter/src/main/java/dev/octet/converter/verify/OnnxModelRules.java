package dev.octet.converter.verify;

import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Node;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumSet;
import java.util.Set;

/** ONNX models as a whole. */
final class OnnxModelRules {
    /** Versions that a consumer does not know. */
    static final GraphRule VERSION = Demand.error("onnx-version", Consumer.OF_GRAPHS)
            .text("The consumer supports the model's opset and IR version: ONNX Runtime 1.30 opset 26 and IR"
                    + " 13, TensorRT 11 opset 25.")
            .fix("export with a lower opset and the lowest IR version that it permits")
            .source("onnx/onnx:onnx/helper.py, microsoft/onnxruntime:docs/OperatorKernels.md, docs.nvidia.com:"
                    + " TensorRT, Working with Quantized Types")
            .onGraphs(OnnxModelRules::version);

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);

    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);

    private static final long RUNTIME_OPSET = 26;

    private static final long RUNTIME_IR = 13;

    private static final long TENSORRT_OPSET = 25;

    private static void version(GraphSubject subject, Report report) {
        long opset = subject.model().opset();
        if (opset > RUNTIME_OPSET) {
            report.add(RUNTIME, "the opset is too new", "opset", opset + ", known up to " + RUNTIME_OPSET);
        }
        if (subject.model().irVersion() > RUNTIME_IR) {
            report.add(
                    RUNTIME,
                    "the IR version is too new",
                    "ir_version",
                    subject.model().irVersion() + ", known up to " + RUNTIME_IR);
        }
        if (opset > TENSORRT_OPSET) {
            report.add(TENSORRT, "the opset is too new", "opset", opset + ", known up to " + TENSORRT_OPSET);
        }
    }

    /** Octet's own operators in a finished model. */
    static final GraphRule OCTET_OPERATORS = Demand.error("onnx-octet-operators", Consumer.OF_GRAPHS)
            .text("A model for a runtime has standard operators only.")
            .fix("write it with octet quantize --target")
            .source("onnx/onnx:docs/IR.md")
            .onGraphs(OnnxModelRules::octetOperators);

    private static void octetOperators(GraphSubject subject, Report report) {
        subject.nodes().stream()
                .filter(n -> n.domain().equals(Node.OCTET_DOMAIN))
                .forEach(n -> report.add("a node is one of Octet's own operators", n.id(), n.opType()));
    }

    /** Models that ONNX Runtime refuses. */
    static final GraphRule SESSION = Demand.error("onnx-session", Consumer.ONNXRUNTIME)
            .text("ONNX Runtime loads the model with its default options.")
            .fix("see its message and the other findings")
            .source("microsoft/onnxruntime#22269")
            .readingWeights()
            .onGraphs(OnnxModelRules::session);

    private static void session(GraphSubject subject, Report report) {
        try {
            OnnxRuntime.open(subject.path(), SessionSettings.defaults()).close();
        } catch (UnsupportedModelException e) {
            report.add(e.what(), subject.path().toString(), "");
        } catch (UnavailableException e) {
            report.add(Severity.ADVICE, "could not be tried: " + e.what(), "ONNX Runtime", "");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private OnnxModelRules() {}
}
