package dev.octet.converter.verify;

import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumSet;

/** Models that ONNX Runtime refuses. */
final class OnnxSession extends GraphRule {
    OnnxSession() {
        super(
                "onnx-session",
                Severity.ERROR,
                EnumSet.of(Consumer.ONNXRUNTIME),
                "ONNX Runtime loads the model with its default options.",
                "see its message; the other findings may say more",
                "microsoft/onnxruntime#22269");
    }

    @Override
    public boolean deep() {
        return true;
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        try {
            OnnxRuntime.open(subject.path(), SessionSettings.defaults()).close();
        } catch (UnsupportedModelException e) {
            findings.add(this, e.what(), subject.path().toString(), "");
        } catch (UnavailableException e) {
            findings.add(this, Severity.ADVICE, consumers(), "could not be tried: " + e.what(), "ONNX Runtime", "");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
