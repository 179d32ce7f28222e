// SPDX-License-Identifier: GPL-2.0-only
/*
 * State that the module has once for all cards of a model: a class in sysfs, device numbers, and
 * numbers for their names.
 */
#include <linux/idr.h>

#include "uln_cards.h"
#include "uln_core.h"

/* Maximum number of cards of a model. */
#define MAX_CARDS 256

struct uln_model {
	const struct card_ops *ops;
	struct class class;
	dev_t first;
	struct ida numbers;
};

#define CARD_MODEL(device, operations) { .ops = &operations },
static struct uln_model models[] = { ULN_CARDS(CARD_MODEL) };

/* Each file is protected from all others, so every user may open one. */
static char *model_devnode(const struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

static int model_load(struct uln_model *model)
{
	int ret;

	ret = alloc_chrdev_region(&model->first, 0, MAX_CARDS, model->ops->name);
	if (ret)
		return ret;
	ida_init(&model->numbers);
	model->class = (struct class) {
		.name = model->ops->name,
		.devnode = model_devnode,
		.dev_groups = model->ops->groups ?: uln_groups,
	};
	ret = class_register(&model->class);
	if (ret)
		goto unregister_numbers;
	/* Cards then find their companion functions when they are probed. */
	ret = model->ops->load ? model->ops->load() : 0;
	if (ret)
		goto unregister_class;
	return 0;

unregister_class:
	class_unregister(&model->class);
unregister_numbers:
	unregister_chrdev_region(model->first, MAX_CARDS);
	return ret;
}

static void models_unload(unsigned int loaded)
{
	while (loaded--) {
		struct uln_model *model = &models[loaded];

		if (model->ops->unload)
			model->ops->unload();
		class_unregister(&model->class);
		unregister_chrdev_region(model->first, MAX_CARDS);
		ida_destroy(&model->numbers);
	}
}

int uln_models_load(void)
{
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(models); i++) {
		ret = model_load(&models[i]);
		if (ret) {
			models_unload(i);
			return ret;
		}
	}
	return 0;
}

void uln_models_unload(void)
{
	models_unload(ARRAY_SIZE(models));
}

const struct card_ops *uln_model_first(void)
{
	return models[0].ops;
}

/* Gives a card, whose operations are known, its number, its name and its place in sysfs. */
int uln_model_join(struct uln_card *card)
{
	struct uln_model *model = models;
	int ret;

	while (model->ops != card->ops)
		model++;
	card->number = ida_alloc_max(&model->numbers, MAX_CARDS - 1, GFP_KERNEL);
	if (card->number < 0)
		return card->number;
	card->model = model;
	card->dev.class = &model->class;
	card->dev.devt = MKDEV(MAJOR(model->first), MINOR(model->first) + card->number);
	ret = dev_set_name(&card->dev, "%s%d", model->ops->name, card->number);
	if (ret)
		uln_model_leave(card);
	return ret;
}

/* Frees the number for the next card, though open files may still use the structure. */
void uln_model_leave(struct uln_card *card)
{
	ida_free(&card->model->numbers, card->number);
}
