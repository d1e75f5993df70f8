package dev.octet.bench.gpu;

import dev.octet.bench.gpu.RecordedWork.Kernel;
import dev.octet.bench.gpu.RecordedWork.Product;
import dev.octet.bench.gpu.RecordedWork.Transfer;
import dev.octet.trainer.device.cuda.CudaDevice;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * What one training step has a GPU do, found without a GPU.
 *
 * @param name model and precision: {@code gpt2 fp8}
 * @param batch samples of the step
 * @param works in the order in which they are queued
 * @param graphs CUDA graphs that the step starts
 * @param alone works that it starts outside of graphs
 * @param peakBytes most device memory that is allocated at once
 * @param writtenBytes copied to the device before the step: weights, states, tables
 */
record RecordedStep(
        String name, int batch, List<RecordedWork> works, int graphs, int alone, long peakBytes, long writtenBytes) {
    /**
     * Records a step behind the warm-up.
     *
     * @param folder an empty one for the model, whose weights are zeros
     */
    static RecordedStep of(String model, String precision, int batch, Path folder) throws IOException {
        return of(model, precision, batch, folder, new RecordingGpu(false));
    }

    /** As {@link #of(String, String, int, Path)}, on a GPU that records. */
    static RecordedStep of(String model, String precision, int batch, Path folder, RecordingGpu recording)
            throws IOException {
        Subject subject = Subject.of(model);
        subject.model().writeEmpty(folder);
        MeasuredGpu gpu = new MeasuredGpu(recording);
        try (CudaDevice device = new CudaDevice(gpu)) {
            StepTime.measure(new StepTime.Task(subject, precision, batch, 1), folder, device, last -> {
                recording.record(true);
                last.run();
                recording.record(false);
            });
        }
        return new RecordedStep(
                model + " " + precision,
                batch,
                recording.works(),
                recording.graphs(),
                recording.alone(),
                gpu.peakBytes(),
                recording.writtenBytes());
    }

    List<Kernel> kernels() {
        return of(Kernel.class);
    }

    List<Product> products() {
        return of(Product.class);
    }

    private List<Transfer> transfers() {
        return of(Transfer.class);
    }

    private <T> List<T> of(Class<T> kind) {
        return works.stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    /** Products with rows that are not multiples of 16 bytes. */
    List<Product> unaligned() {
        return products().stream().filter(Predicate.not(Product::isAligned)).toList();
    }

    /** What must not grow, by its name. */
    Map<String, Long> sizes() {
        Map<String, Long> sizes = new LinkedHashMap<>();
        sizes.put("nodes", (long) works.size());
        sizes.put("kernels", (long) kernels().size());
        sizes.put("products", (long) products().size());
        sizes.put("unaligned products", (long) unaligned().size());
        sizes.put("memsets", transfers().stream().filter(Transfer::isMemset).count());
        sizes.put("copies", transfers().stream().filter(t -> !t.isMemset()).count());
        sizes.put("graphs", (long) graphs);
        sizes.put("outside of graphs", (long) alone);
        sizes.put("peak bytes", peakBytes);
        sizes.put("written bytes", writtenBytes);
        return sizes;
    }

    /** Lines of a file: the sizes, then each different work with how often it occurs, where it occurs first. Fields have tabs between them. */
    String text() {
        StringBuilder text = new StringBuilder("step\t" + name + "\tbatch=" + batch + "\n");
        sizes().forEach((what, count) ->
                text.append("size\t").append(what).append('\t').append(count).append('\n'));
        Map<String, Integer> counts = new LinkedHashMap<>();
        works.forEach(w -> counts.merge(w.text(), 1, Integer::sum));
        counts.forEach((work, count) -> {
            int tab = work.indexOf('\t');
            text.append(work, 0, tab)
                    .append('\t')
                    .append(count)
                    .append(work.substring(tab))
                    .append('\n');
        });
        return text.toString();
    }
}
