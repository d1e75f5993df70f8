package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.formats.graph.GraphModel;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Calibrates until some samples are in, says so, and then waits to be killed: a program of its own for {@link CalibrationRunTest}. */
public final class KilledCalibration {
    private KilledCalibration() {}

    /** Arguments: data, checkpoint, samples. */
    public static void main(String[] args) throws IOException {
        GraphModel model = TestModels.doubling(0);
        try (Dataset data = NpzDataset.open(Path.of(args[0]), InputSpec.of(model))) {
            CalibrationRun.run(
                    model,
                    "model",
                    List.of(TestModels.TAP),
                    data,
                    CalibrationOptions.defaults()
                            .withBatchSize(3)
                            .withCheckpoint(Path.of(args[1]), 3)
                            .withProgress((done, total) -> {
                                if (done >= Integer.parseInt(args[2])) {
                                    waitForTheEnd();
                                }
                            }));
        }
    }

    private static void waitForTheEnd() {
        System.out.println("ready");
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
