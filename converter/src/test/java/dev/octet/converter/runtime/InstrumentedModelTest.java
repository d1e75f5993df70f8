package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class InstrumentedModelTest {
    private static final GraphModel MODEL = TestModels.doubling(0);

    @TempDir
    Path folder;

    /** Looks at nothing; stops after the first batch where it is told to. */
    private record Observer(boolean stops) implements TapObserver {
        @Override
        public void observe(String tap, Tensor value, long rowLength, BitSet kept) {}

        @Override
        public void batchDone(int samples) {
            if (stops) {
                throw new CancellationException();
            }
        }
    }

    private void run(Path temporary, Observer observer) throws IOException {
        Path npz = TestModels.data(folder.resolve("data.npz"), 9, 5, 1);
        try (Dataset data = NpzDataset.open(npz, InputSpec.of(MODEL));
                InstrumentedModel tapped = InstrumentedModel.open(
                        MODEL, List.of(TestModels.TAP), new SessionSettings(2, false), temporary)) {
            tapped.run(data, 0, 3, observer);
        }
    }

    @Test
    void no_temporary_file_stays_after_a_run_nor_after_one_that_is_stopped() throws IOException {
        Path temporary = Files.createDirectory(folder.resolve("temporary"));
        run(temporary, new Observer(false));
        assertThrows(CancellationException.class, () -> run(temporary, new Observer(true)));
        try (Stream<Path> left = Files.list(temporary)) {
            assertEquals(0, left.count());
        }
    }
}
