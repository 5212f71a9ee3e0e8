"""InfoNCE over in-batch positives and hard negatives, at any batch size, on one process or many.

The loss of a query needs every candidate of the batch. So that neither memory nor the number of processes limits
the batch, token vectors are first made without a graph, chunk by chunk; the loss and its gradient with respect to
the vectors are taken over all of them; then each chunk is encoded again and the gradient sent through it (gradient
caching, Gao et al. 2021, arXiv 2101.06983). The candidates, and so the gradient, are those of the whole batch.
"""

import numpy as np
import torch
from accelerate import Accelerator
from jaxtyping import Bool, Float
from torch import Tensor

from readout.errors import ParameterError
from readout.scorers import Scorer, Tokens, infonce_loss
from readout.training.batches import Padded, TripletBatches
from readout.training.encoder import Encoder

_QUERY, _POSITIVE = 0, 1


class Contrastive:
    """The objective of scorer training: `backward(step)` adds the gradient of that step's batch.

    temperature: scores are divided by it. chunks: pieces in which each process encodes its triplets; more need less
    memory and one more forward pass. Candidates of the query's own author-set, other than its positive, are left out
    of its softmax (the public code counts them as negatives). Everything random in a step follows from (seed, step).

    Raises ParameterError where the batch does not divide among processes and chunks.
    """

    def __init__(
        self,
        encoder: Encoder,
        scorer: Scorer,
        triplets: TripletBatches,
        *,
        temperature: float,
        batch_size: int,
        chunks: int = 1,
        seed: int = 0,
        precision: str = "float32",
        accelerator: Accelerator | None = None,
    ):
        self.encoder, self.scorer, self.triplets = encoder, scorer, triplets
        self.temperature, self.batch_size, self.chunks, self.seed = temperature, batch_size, chunks, seed
        self.precision = precision
        self.accelerator = accelerator or Accelerator()
        pieces = chunks * self.accelerator.num_processes
        if chunks < 1 or batch_size % pieces:
            raise ParameterError(
                f"batch_size: {batch_size} does not divide into {pieces} pieces (chunks x processes)"
            )

    def backward(self, step: int) -> float:
        """Adds the gradient of the mean loss over the whole batch's queries to the encoder; returns the loss.

        Of several processes each adds its own texts' share of the gradient: their sum is the gradient.
        """
        mine = self._mine(step)
        chunks = [self._texts(rows) for rows in _split(mine, self.chunks)]
        alone = self.chunks == 1
        with torch.set_grad_enabled(alone):
            encoded = [self._encode(chunk, step, index) for index, chunk in enumerate(chunks)]
        # [chunk, part, row] as encoded; the loss wants all anchors, then all positives, then all negatives.
        order = torch.arange(len(self.triplets.ids) * len(mine)).view(self.chunks, len(self.triplets.ids), -1)
        order = order.transpose(0, 1).flatten().to(self.accelerator.device)
        vectors = [Tokens(e.detach(), c.mask, c.content) for e, c in zip(encoded, chunks, strict=True)]
        loss, gradient = self._loss(Tokens.cat(vectors)[order], mine, step)
        shares = gradient[order.argsort()].unflatten(0, (self.chunks, -1))
        for index, (chunk, share) in enumerate(zip(chunks, shares, strict=True)):
            states = encoded[0] if alone else self._encode(chunk, step, index)
            states.backward(share[:, : states.shape[1]])
        return loss

    def _mine(self, step: int) -> range:
        rows = self.triplets.rows(step, self.batch_size)
        size = len(rows) // self.accelerator.num_processes
        return rows[self.accelerator.process_index * size :][:size]

    def _texts(self, rows: range) -> Padded:
        part_rows = [(part, row) for part in range(len(self.triplets.ids)) for row in rows]
        return self.triplets.padded(part_rows, self.accelerator.device)

    def _encode(self, padded: Padded, step: int, chunk: int) -> Float[Tensor, "text token dim"]:
        device = self.accelerator.device
        with torch.random.fork_rng():
            # The second forward of a chunk must drop the same units as the first.
            key = (self.seed, step, self.accelerator.process_index, chunk)
            torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))
            with torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
                return self.encoder(padded.input_ids, padded.mask)

    def _loss(self, vectors: Tokens, mine: range, step: int) -> tuple[float, Float[Tensor, "text token dim"]]:
        """The batch's loss, and its gradient with respect to this process's vectors [part * row]."""
        batch = self.triplets.rows(step, self.batch_size)
        keys = self._gather(vectors[len(mine) :])
        query_states = vectors.states[: len(mine)].requires_grad_()
        key_states = keys.states.requires_grad_()
        queries = Tokens(query_states, vectors.mask[: len(mine)], vectors.content[: len(mine)])
        scores = self.scorer.score(queries, Tokens(key_states, keys.mask, keys.content))
        target, excluded = self.targets(mine, batch)
        loss = infonce_loss(scores, target, self.temperature, excluded) * (len(mine) / len(batch))
        loss.backward()
        # Each process has the gradient of its own queries with respect to every key.
        of_keys = self.accelerator.reduce(key_states.grad, reduction="sum")
        own = of_keys.unflatten(0, (self.accelerator.num_processes, -1))[self.accelerator.process_index]
        own = own[:, : query_states.shape[1]]
        total = self.accelerator.reduce(loss.detach(), reduction="sum")
        return float(total), torch.cat([query_states.grad, own])

    def _gather(self, keys: Tokens) -> Tokens:
        """The keys of all processes, process by process, padded to the longest."""

        def everywhere(tensor: Tensor) -> Tensor:
            # Padding would turn booleans into integers, on the padded process alone.
            numbers = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor
            padded = self.accelerator.pad_across_processes(numbers, dim=1)
            return self.accelerator.gather(padded).to(tensor.dtype)

        if self.accelerator.num_processes == 1:
            return keys
        return Tokens(everywhere(keys.states), everywhere(keys.mask), everywhere(keys.content))

    def targets(self, mine: range, batch: range) -> tuple[Tensor, Bool[Tensor, "query key"]]:
        """Where each query's positive stands among the gathered keys, and which keys are not candidates for it."""
        n_processes, size = self.accelerator.num_processes, len(mine)
        key_sets = self.triplets.sets[_POSITIVE:, batch.start : batch.stop]
        key_sets = key_sets.unflatten(1, (n_processes, size)).transpose(0, 1).flatten()
        query_sets = self.triplets.sets[_QUERY, mine.start : mine.stop]
        first = self.accelerator.process_index * (len(self.triplets.ids) - 1) * size
        target = first + torch.arange(size)
        excluded = query_sets[:, None] == key_sets
        excluded[torch.arange(size), target] = False
        device = self.accelerator.device
        return target.to(device), excluded.to(device)


def _split(rows: range, chunks: int) -> list[range]:
    size = len(rows) // chunks
    return [rows[start : start + size] for start in range(0, len(rows), size)]
