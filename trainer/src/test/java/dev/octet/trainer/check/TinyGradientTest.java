package dev.octet.trainer.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.loss.LossGraph;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Whole models: logits, loss and the gradient of every parameter as torch computes them in F32. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TinyGradientTest {
    private static void check(String name, Device device) throws IOException {
        try (TinyGoldens tiny = TinyGoldens.open(name)) {
            LossGraph graph = tiny.withLoss();
            GradientCheck check = new GradientCheck(graph.model(), graph.loss(), tiny.golden(), tiny.renamed());
            assertEquals(
                    tiny.golden().gradients().size(),
                    check.program().gradients().size());
            List<GoldenDifference> all = check.run(device);
            assertTrue(all.size() > 20, "logits, loss and many gradients");
            for (GoldenDifference d : all) {
                // torch's own F32 is this far from exact: two layers of sums of up to 128 terms
                assertTrue(d.error() <= 1e-5, d.toString());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void both_attentions_are_one_operator_each(String name) throws IOException {
        try (TinyGoldens tiny = TinyGoldens.open(name)) {
            List<String> found = tiny.graph().graph().nodes().stream()
                    .map(Node::opType)
                    .filter(type -> type.equals("Attention") || type.equals("Softmax"))
                    .toList();
            assertEquals(List.of("Attention", "Attention"), found);
        }
    }

    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void the_cpu_computes_what_torch_does(String name) throws IOException {
        try (Device cpu = CpuDevice.of(2)) {
            check(name, cpu);
        }
    }

    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void the_kernels_compute_what_torch_does(String name) throws IOException {
        try (Device kernels = TestGpus.hostDevice()) {
            check(name, kernels);
        }
    }

    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void the_gpu_computes_what_torch_does(String name) throws IOException {
        try (Device gpu = TestGpus.realDevice()) {
            check(name, gpu);
        }
    }

    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void the_reference_computes_what_torch_does(String name) throws IOException {
        try (Device reference = new ReferenceDevice()) {
            check(name, reference);
        }
    }
}
