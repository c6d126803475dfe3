"""Keras on torch: fit, evaluate, a custom layer, predict."""

import keras
import numpy as np

keras.utils.set_random_seed(0)


class Scaled(keras.layers.Layer):
    """A layer of the program's own."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, inputs):
        return inputs * self.scale


model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        Scaled(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(3),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
images, labels = np.random.rand(64, 16, 16, 1), np.random.randint(0, 3, 64)
history = model.fit(images, labels, batch_size=16, epochs=3, verbose=0, validation_split=0.25)
print(history.history)
print(model.evaluate(images, labels, verbose=0), model.predict(images, verbose=0).sum())
