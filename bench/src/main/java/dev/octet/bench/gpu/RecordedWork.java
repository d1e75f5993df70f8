package dev.octet.bench.gpu;

import dev.octet.bench.gpu.KernelSignature.Parameter;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A node of a recorded step. */
sealed interface RecordedWork {
    /** As {@link dev.octet.trainer.device.cuda.Work#name} has it on a GPU. */
    String name();

    /** What it is, without addresses: kind and properties, with tabs between them. Works of one step that do the same have the same text. */
    String text();

    /**
     * A launch.
     *
     * @param arguments in the kernel's order, as {@link dev.octet.trainer.device.cuda.Gpu#launch} gets them
     */
    record Kernel(CudaSource source, String name, Grid grid, List<Object> arguments) implements RecordedWork {
        /** Its parameters; empty where the source does not show them. */
        List<Parameter> parameters() {
            List<Parameter> found = KernelSignature.of(source, name);
            return found.size() == arguments.size() ? found : List.of();
        }

        /** Blocks of the grid. */
        long blocks() {
            return grid.x() * grid.y() * grid.z();
        }

        /** Macros, grid, and arguments that are numbers; addresses where they are absent. */
        @Override
        public String text() {
            List<String> numbers = new ArrayList<>();
            List<Parameter> parameters = parameters();
            for (int i = 0; i < parameters.size(); i++) {
                boolean absent = arguments.get(i) instanceof Long x && x == 0;
                if (!parameters.get(i).pointer() || absent) {
                    numbers.add(parameters.get(i).name() + "=" + arguments.get(i));
                }
            }
            return String.join(
                    "\t",
                    "kernel",
                    name,
                    source.toString(),
                    grid.x() + "x" + grid.y() + "x" + grid.z() + " threads=" + grid.threads() + " shared="
                            + grid.sharedBytes(),
                    String.join(" ", numbers));
        }
    }

    /** A matrix product by the library. */
    record Product(CudaProduct product) implements RecordedWork {
        @Override
        public String name() {
            return product.name();
        }

        /** Whether all rows are where tensor cores are fed at full speed, see {@link CudaProduct#ALIGNMENT}. */
        boolean isAligned() {
            return Stream.of(product.a(), product.b(), product.d()).allMatch(Matrix::isAligned);
        }

        @Override
        public String text() {
            CudaProduct p = product;
            return String.join(
                    "\t",
                    "product",
                    type(p.a()) + "*" + type(p.b()) + ">" + type(p.d()),
                    (p.transposeA() ? "T" : "N") + (p.transposeB() ? "T" : "N"),
                    "m=" + p.m() + " n=" + p.n() + " k=" + p.k(),
                    "leading=" + p.a().leading() + "," + p.b().leading() + "," + p.d().leading(),
                    "batch=" + p.batch() + (p.bias() == 0 ? "" : " bias=" + CudaSource.suffix(p.biasType()))
                            + (p.accumulate() ? " added" : "") + (p.fastSums() ? " fast" : "")
                            + (isAligned() ? "" : " unaligned"));
        }

        private static String type(Matrix matrix) {
            return CudaSource.suffix(matrix.type());
        }
    }

    /** Attention by the library. */
    record Attention(CudaAttention attention) implements RecordedWork {
        @Override
        public String name() {
            return attention.name();
        }

        @Override
        public String text() {
            return String.join("\t", "attention", attention.name(), "scale=" + attention.scale());
        }
    }

    /**
     * A copy, zeros, or an event.
     *
     * @param name the driver's function
     */
    record Transfer(String name, long bytes) implements RecordedWork {
        boolean isMemset() {
            return name.startsWith("cuMemset");
        }

        @Override
        public String text() {
            return String.join("\t", isMemset() ? "memset" : "copy", name, "bytes=" + bytes);
        }
    }
}
